// What was split off a module: separate debug files, the compressed mini symbol table.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "elfcore/modules.h"

namespace pm::unwind {

// The separate debug file of a module, as gdb looks for it (gdb manual, "Separate Debug Files"):
// by build ID under `sysroot`/usr/lib/debug/.build-id, then by the name in .gnu_debuglink, whose
// checksum must match where no build ID can. Null when there is none.
std::shared_ptr<const elfcore::Image> separate_debug_file(const elfcore::Module& module,
                                                          const std::string& sysroot);

// Whether this build was made with liblzma.
bool can_unpack_lzma();

// .gnu_debugdata ("MiniDebugInfo" of Fedora and RHEL): symbols of functions that are not dynamic.
// The ELF file that was compressed there; empty when there is none, or without liblzma.
std::vector<std::uint8_t> mini_debug_data(const elfcore::Image& image);

// The file that has source lines of a module: itself, or its separate debug file. Null where there
// are none, and for a module whose file is missing or another build.
std::shared_ptr<const elfcore::Image> debug_image(const elfcore::Module& module,
                                                  const std::string& sysroot);

}  // namespace pm::unwind
