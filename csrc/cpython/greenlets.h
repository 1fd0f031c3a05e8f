// Greenlets that stand switched out: where each will go on.
#pragma once

#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "cpython/frames.h"
#include "cpython/heap.h"
#include "cpython/python.h"
#include "cpython/threads.h"

namespace pm::cpython {

// greenlet 2.0 and later on CPython 3.9 and later, with a GIL. Nothing lists them, so they are
// found among the objects that the garbage collector knows.
class Greenlets {
 public:
  Greenlets(const Heap& heap, const Frames& frames, const Options& options)
      : heap_(heap), frames_(frames), options_(options) {}

  // Those of an interpreter that wait to be switched to; who has not begun has no frames.
  std::vector<Greenlet> read(std::uint64_t interpreter, const std::vector<ThreadState>& threads,
                             Problems& problems);

 private:
  // What greenlet keeps of one that is switched out.
  struct Suspended {
    std::uint64_t frame_object = 0;
    std::uint64_t stack_start = 0;
    bool main = false;
  };
  std::uint64_t greenlet_type(std::uint64_t interpreter) const;
  bool is_greenlet(std::uint64_t type);
  std::vector<std::uint64_t> find(std::uint64_t interpreter, Problems& problems);
  bool walk(std::uint64_t first, std::vector<std::uint64_t>& found);
  std::optional<Suspended> suspended(std::uint64_t greenlet, bool& known) const;
  std::int32_t thread_of(std::uint64_t stack, const std::vector<ThreadState>& threads) const;

  const Heap& heap_;
  const Frames& frames_;
  const Options& options_;
  std::uint64_t base_ = 0;                           // greenlet.greenlet
  std::unordered_map<std::uint64_t, bool> derived_;  // by the address of a type
  std::size_t steps_ = 0;
};

}  // namespace pm::cpython
