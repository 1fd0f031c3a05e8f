// What tells readers of a core which files were loaded: ELF headers, data of modules, the link map.
#pragma once

#include "elfcore/modules.h"
#include "slim/pages.h"

namespace pm::slim {

// ELF headers and build IDs, data and zero-initialised data of each module, relocated pages that
// differ from the file, and small mappings of the kernel's (vdso).
void keep_modules(const elfcore::Memory& memory, PageSet& pages);

// The dynamic linker's list of loaded files, which gdb and libdw follow (link.h: r_debug,
// link_map).
void keep_link_map(const elfcore::Memory& memory, PageSet& pages);

}  // namespace pm::slim
