// What of a core is kept, so that gdb, pystack, eu-stack and we read the same stacks from it.
//
// By kind: stacks, thread-local storage, the data of modules, the link map, what made a module
// known (its ELF header and build ID). By use: every page that our own readers look at, what stacks
// and registers point to, and Python's objects as a whole where another reader copies them whole.
#pragma once

#include <functional>
#include <vector>

#include "base/error.h"
#include "elfcore/modules.h"
#include "slim/pages.h"

namespace pm::slim {

// Reads all that a report says, through a core that is watched.
using Walk = std::function<void(elfcore::Core& core)>;

struct Selection {
  std::vector<Range> ranges;
  Problems problems;
};

// `walk` is called with the core watched; the module list is read anew there or taken from
// `modules`. A fetcher (see MemoryWatch) that the core already has stays in front.
Selection select(elfcore::Core& core, const elfcore::Modules& modules, const Walk& walk);

}  // namespace pm::slim
