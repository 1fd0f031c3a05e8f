// Which files were mapped where, as the dynamic loader knew it: for cores whose NT_FILE is missing
// (kernels before 3.7, valgrind, qemu's user emulation) or leaves text out (gcore of gdb 7).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "elfcore/core.h"

namespace pm::elfcore {

struct LoadedFile {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t offset = 0;  // in the file, in bytes
  std::string path;
};

// Rows as NT_FILE would have them, by address. `executable` is the file that the user says ran
// (may be empty); files are looked up below `sysroot`.
std::vector<LoadedFile> find_loaded_files(const Core& core, const std::string& executable,
                                          const std::string& sysroot);

}  // namespace pm::elfcore
