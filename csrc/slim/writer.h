// Writes a slim core: ELF headers, the notes as they were and one of our own, the memory kept.
#pragma once

#include <cstdint>
#include <vector>

#include "elfcore/core.h"
#include "slim/pages.h"

namespace pm::slim {

struct Written {
  std::uint64_t file_bytes = 0;  // size of the slim core
  std::uint64_t kept_bytes = 0;  // memory in it
  std::size_t pieces = 0;        // stretches of memory in it
};

// What the note of a slim core says of the core that it is made from; of a slim core, what that
// one's own note says.
elfcore::SlimInfo describe_source(const elfcore::Core& core);

// Writes at the start of `fd`, an empty regular file; blocks of zeros are left as holes. What of
// `ranges` the core does not have is left out. Throws std::system_error when writing fails.
Written write_core(const elfcore::Core& core, const std::vector<Range>& ranges,
                   const elfcore::SlimInfo& info, int fd);

}  // namespace pm::slim
