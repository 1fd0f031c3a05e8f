// Ctrl-C while C++ reads without the GIL.
#pragma once

#include <csignal>
#include <stdexcept>

namespace pm::bind {

class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("interrupted") {}
};

// Takes note of SIGINT as long as it lives, and hands it on to Python, whose own handler does
// nothing before the interpreter runs again. Inactive in threads other than the first, and where
// SIGINT is ignored.
class InterruptWatch {
 public:
  InterruptWatch() noexcept;
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;
  static bool seen() noexcept;

 private:
  bool active_ = false;
};

}  // namespace pm::bind
