// The process behind a core, beside its threads and modules.
#pragma once

#include <pybind11/pybind11.h>

#include <optional>
#include <string>
#include <vector>

#include "elfcore/address.h"
#include "elfcore/command_line.h"
#include "elfcore/cpp_exception.h"
#include "elfcore/instruction.h"

namespace pm::bind {

struct ProcessFindings {
  elfcore::CommandLine command_line;
  std::optional<std::vector<std::string>> environment;
  std::optional<std::string> abort_message;
  std::vector<elfcore::CppException> exceptions;
  std::optional<std::string> python_version;
  std::string executable;
  std::optional<elfcore::AddressFacts> fault, pc, sp, operand;
  std::optional<elfcore::Instruction> instruction;
  std::vector<elfcore::MemoryKind> kinds;
};

// Needs no GIL.
ProcessFindings read_process(elfcore::Core& core, const elfcore::Modules& modules);
// Fills the keys of RawCore that tell of the process and its end.
void add_process(pybind11::dict& result, const elfcore::Core& core, const ProcessFindings& found);

}  // namespace pm::bind
