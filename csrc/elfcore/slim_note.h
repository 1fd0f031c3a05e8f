// What a slim core says of itself: a note of our own among the process's notes.
//
// A slim core holds part of the memory that another core held. The note has the segments of that
// core, so that the address space reads as it was, and what was left out is told from what the
// kernel never wrote.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace pm::elfcore {

inline constexpr std::string_view kSlimNoteName = "postmortem";
inline constexpr std::uint32_t kSlimNoteType = 0x4d494c53;  // "SLIM"

// A PT_LOAD of the core that the slim one was made from; see Segment.
struct SlimSegment {
  std::uint64_t start = 0;
  std::uint64_t size = 0;
  std::uint64_t dumped = 0;
  std::uint64_t present = 0;
  std::uint32_t flags = 0;
};

struct SlimInfo {
  std::uint64_t source_bytes = 0;    // size of the core that it was made from
  std::uint64_t expected_bytes = 0;  // what that core's headers promised; more: it was cut off
  // Written while a core streamed by (csrc/slim/spool.h): kept by kind, not yet by use.
  bool spooled = false;
  // Memory that the source had and that could not be kept for want of room, not by choice.
  std::uint64_t lost_bytes = 0;
  std::vector<SlimSegment> segments;            // by address
  std::map<std::int32_t, std::string> threads;  // /proc/PID/task/TID/comm, where it could be read
};

// Content of the note.
std::vector<std::uint8_t> encode_slim(const SlimInfo& info);
// Nothing when it is none that this version can read, or cannot be true.
std::optional<SlimInfo> decode_slim(Bytes content);

}  // namespace pm::elfcore
