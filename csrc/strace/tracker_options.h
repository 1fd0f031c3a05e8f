// What a replay is asked for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strace/extract.h"

namespace pm::strace {

class Observer;

struct TrackerOptions {
  bool statistics = false;
  bool annotations = true;    // false hides them from the tracker, for the check
  bool by_entry = false;      // lines are in the order in which calls began (-ff with times)
  bool infer_sigbus = false;  // a SIGBUS on a mapped file is a hit
  std::vector<std::string> signals;
  std::vector<Query> queries;
  std::uint32_t only = 0;  // a process: hits and totals are of it and its threads alone
  std::size_t most_matches = 5000;
  std::size_t most_of_one = 5000;  // one errno of one call: a flood must not hide others
  Observer* observer = nullptr;    // is told of every event; Wanted::every makes all calls events
};

// Where a block of a log begins.
struct BlockOrigin {
  std::uint32_t file = 0;
  std::uint64_t first_line = 1;
  std::uint32_t file_pid = 0;  // the task that a file of -ff is of

  // Of a line by its number in the block.
  Place place(std::uint32_t number) const noexcept { return {file, first_line + number}; }
};

}  // namespace pm::strace
