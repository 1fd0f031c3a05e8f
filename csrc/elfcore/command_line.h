// How the process was started: what execve() put on top of the main stack.
#pragma once

#include <string>
#include <vector>

#include "elfcore/core.h"

namespace pm::elfcore {

struct CommandLine {
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  // at exec; what came later stands in `environ`
  std::string executable;                // AT_EXECFN: what was given to execve(), maybe relative
  bool found = false;                    // false: the top of the stack is cut off or overwritten
};

// Reads it without symbols: the kernel's copy of the auxiliary vector lies right above envp and
// argv (create_elf_tables in fs/binfmt_elf.c).
CommandLine read_command_line(Core& core);

}  // namespace pm::elfcore
