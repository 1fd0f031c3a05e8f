// A process that outlives us by a moment, to put in order what nobody else could when we are killed
// (SIGKILL, a crash, the OOM killer).
#pragma once

#include <cstdint>

namespace pm::live {

struct Guardian {
  std::int32_t pid = -1;  // also the ID of the process group that it leads; -1: see `error`
  int pipe = -1;          // write a byte to end it; closed without one, it does its duty
  int error = 0;          // errno
};

// Starts a guardian in a process group of its own. Without a `target` its duty is to kill that
// group, itself with it: whatever is to end with us joins it. With one, it is to see that this
// process goes on: it is sent SIGCONT where the end of its tracer leaves it stopped, and it was not
// before.
Guardian start_guardian(std::int32_t target) noexcept;

}  // namespace pm::live
