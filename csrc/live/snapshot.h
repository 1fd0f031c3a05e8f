// A live process, read as if it were a core: its threads stopped for as long as that takes.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "elfcore/core.h"

namespace pm::live {

struct Options {
  bool stop = true;
  // How long to wait for threads to come to a stop.
  std::chrono::milliseconds patience{300};
};

// What came of it, beside what the reader made of the core.
struct Outcome {
  bool stopped = false;  // all threads stood still while they were read
  int refused = 0;       // errno of ptrace(2); 0: it was not refused, or not asked for
  double stopped_seconds = 0;
  // By the thread's ID as the process knows it, the ID that we know it by.
  std::map<std::int32_t, std::int32_t> outer;
  std::size_t unknown = 0;  // threads whose registers could not be had
};

using Reader = std::function<void(elfcore::Core&)>;
using Finish = std::function<void(elfcore::Core&, const Outcome&)>;

// Reads the process and calls `finish` once it runs again, while the core still is there. The
// memory is read once before anything is stopped: so files that it names are known to be readable,
// and a dead file server keeps us waiting, not the process. Throws EvidenceError when there is no
// such process or it cannot be read.
void read_process(std::int32_t pid, const Options& options, const Reader& read,
                  const Finish& finish);

}  // namespace pm::live
