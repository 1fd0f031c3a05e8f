// Locks of Python code: which ones a thread's `with` statements hold, and which one it may wait
// for.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cpython/frames.h"
#include "cpython/heap.h"
#include "cpython/threads.h"

namespace pm::cpython {

// Modules/_threadmodule.c: a Lock and an RLock keep the address of a sem_t behind their header, an
// RLock then its owner. A Lock since 3.13.1 and an RLock since 3.14 have one byte there instead (a
// PyMutex); who waits for it parks elsewhere and says so (locks/futex.h, `parked`). Which of the
// two it is shows by the size of the type.
class Locks {
 public:
  Locks(const Heap& heap, const std::vector<ThreadState>& threads)
      : heap_(heap), threads_(threads) {}

  // The locks whose bound `__exit__` lies on the value stacks of a thread, in slots that the code
  // at this place surely uses (a `with` block that has been entered).
  std::vector<HeldLock> held(const Chain& chain) const;
  // The locks in any slot of the innermost frame, used or left behind: what its thread waits for
  // is the one whose word it waits on.
  std::vector<Lock> at_hand(const Chain& chain) const;
  // What threads wait on that wait for a lock; 0: the object is no lock.
  std::uint64_t word_of(std::uint64_t object) const;

 private:
  struct Slots {
    std::uint64_t first = 0;  // of the value stack
    std::uint64_t depth = 0;  // how many are surely in use
  };
  Slots slots_of(const FramePlace& place) const;
  std::uint64_t depth_by_table(const FramePlace& place) const;
  std::uint64_t depth_by_blocks(std::uint64_t frame) const;
  std::optional<Lock> read(std::uint64_t object) const;
  std::uint64_t bound_to(std::uint64_t method, bool only_exit) const;
  std::uint64_t left_by_exit(std::uint64_t slot) const;
  std::uint64_t slot_value(std::uint64_t slot) const;
  bool is_mutex(const Type& type, bool recursive) const;
  bool alive(std::uint64_t object) const;
  bool alive_unlocked(std::uint64_t object) const;
  std::int32_t grown(std::int32_t field) const noexcept;

  const Heap& heap_;
  const std::vector<ThreadState>& threads_;
};

}  // namespace pm::cpython
