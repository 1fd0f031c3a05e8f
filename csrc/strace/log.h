// A whole log: reads, extracts on several threads, replays in order.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "strace/blocks.h"
#include "strace/tracker.h"

namespace pm::strace {

struct LogFile {
  Pull pull;
  std::uint32_t pid = 0;  // of a file of -ff; 0 for a log of all tasks
  std::string name;
};

struct LogOptions {
  Wanted wanted;
  TrackerOptions tracker;
  unsigned threads = 2;
  std::size_t block_bytes = 0;  // 0: what suits what is wanted
};

struct Log {
  std::unique_ptr<Tracker> tracker;
  Counts counts;
  std::vector<CallCount> statistics;
  std::vector<std::pair<std::string, CallCount>> other_calls;
  std::vector<std::uint64_t> file_bytes;
  std::string first_unparsed;
  Place first_unparsed_place;
  std::uint64_t cut_lines = 0;
  bool by_time = false;  // files of -ff were merged by their time stamps
  bool summed = false;   // the clock is the sum of the stamps of -r, from 0
  Problems problems;
};

// Reads one log. Throws EvidenceError if it cannot be read.
Log read_log(LogFile file, const LogOptions& options);

// Reads the files of `strace -ff`, one for each task, as one log: in the order of their time
// stamps, or, if they have none, each task behind the fork that made it.
Log read_logs(std::vector<LogFile> files, const LogOptions& options);

}  // namespace pm::strace
