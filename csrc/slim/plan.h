// What of a core is kept while it streams by, decided before its memory comes.
//
// Which heap pages its readers will want cannot be known then: they stand behind pointers in memory
// that comes later. So: what threads, modules and the linker need for certain; then other memory,
// small mappings first, up to a limit. Python's arenas are of 256 KiB or 1 MiB, a tensor's memory
// is one large mapping.
#pragma once

#include <cstdint>
#include <vector>

#include "elfcore/core.h"
#include "slim/pages.h"

namespace pm::slim {

struct Planned {
  Range memory;
  std::uint64_t offset = 0;  // in the stream
  bool needed = false;       // stacks, data of modules; else memory that may turn out to be of use
};

struct Plan {
  std::vector<Planned> parts;  // by offset in the stream, without overlaps
  std::uint64_t left_out = 0;  // bytes of memory that are in the stream and not in the plan
};

// `room` bounds the memory that is not needed for certain.
Plan make_plan(const elfcore::Core& core, std::uint64_t room);

}  // namespace pm::slim
