// A core that comes as a stream, kept in a file as far as it may be of use: one pass, no seeking.
//
// What is written is a slim core of its own kind, marked as spooled, from which the pages that
// readers want are chosen afterwards (slim/selection.h). It can be read by itself, too: if choosing
// fails, the crash is not lost.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "elfcore/core.h"
#include "slim/head.h"

namespace pm::slim {

struct Spooled {
  std::uint64_t stream_bytes = 0;  // that came
  std::uint64_t lost_bytes = 0;    // memory that came and was not kept
  Problems problems;
};

// Reads `in` to its end and writes to `out`, an empty regular file. `room` bounds the memory that
// is kept beside what is needed for certain. Where `out` runs out of space, the memory that is not
// needed for certain is given up, and only then std::system_error is thrown.
Spooled spool(const Head& head, int in, int out, std::uint64_t room);

}  // namespace pm::slim
