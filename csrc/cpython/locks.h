// Locks of Python code: which ones a thread's `with` statements hold.
#pragma once

#include <cstdint>
#include <vector>

#include "cpython/frames.h"
#include "cpython/heap.h"

namespace pm::cpython {

// The locks whose bound `__exit__` lies on the value stacks of a thread, in slots that the code at
// this place surely uses (a `with` block that has been entered). Modules/_threadmodule.c: a Lock
// and an RLock of 3.8 to 3.13 keep the address of a sem_t behind their header.
class HeldLocks {
 public:
  explicit HeldLocks(const Heap& heap) : heap_(heap) {}
  std::vector<HeldLock> read(const Chain& chain) const;

 private:
  void read_frame(const FramePlace& place, std::uint32_t number, std::vector<HeldLock>& out) const;
  std::uint64_t depth_by_table(const FramePlace& place) const;
  std::uint64_t depth_by_blocks(std::uint64_t frame) const;
  void add(std::uint64_t object, std::uint32_t number, std::vector<HeldLock>& out) const;

  const Heap& heap_;
};

}  // namespace pm::cpython
