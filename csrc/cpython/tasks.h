// Tasks of asyncio: where each stands in its own code, and what it awaits.
#pragma once

#include <vector>

#include "base/error.h"
#include "cpython/frames.h"
#include "cpython/heap.h"
#include "cpython/python.h"
#include "cpython/threads.h"

namespace pm::cpython {

// CPython 3.11 to 3.14. Up to 3.10 frames of coroutines are of another kind, and 3.15 numbers
// their states anew.
class Tasks {
 public:
  Tasks(const Heap& heap, const Frames& frames, const Options& options)
      : heap_(heap), frames_(frames), options_(options) {}

  // The tasks of an interpreter that have not ended.
  std::vector<AsyncTask> read(std::uint64_t interpreter, const std::vector<ThreadState>& threads,
                              Problems& problems) const;

 private:
  struct Parts {
    std::uint64_t coroutine = 0, waiter = 0, name = 0, loop = 0;
  };
  // Where asyncio's C module says that its lists are (`Py_AsyncioModuleDebugOffsets`, since 3.14),
  // in bytes: from a task to its node, from an interpreter and from a thread to the head.
  struct Lists {
    std::uint64_t node = 0, of_interpreter = 0, of_thread = 0;
  };
  std::vector<std::uint64_t> all(std::uint64_t interpreter,
                                 const std::vector<ThreadState>& threads) const;
  std::optional<Lists> lists(std::uint64_t task_type) const;
  std::optional<Lists> lists_at(std::uint64_t address, std::uint64_t task_size) const;
  void add_listed(std::uint64_t head, std::uint64_t node, std::vector<std::uint64_t>& found) const;
  Parts parts_of(std::uint64_t task) const;
  bool is_generator(const Type& type) const;
  std::uint64_t frame_in(std::uint64_t generator, const Type& type) const;
  std::uint64_t awaited_by(std::uint64_t frame) const;
  Chain walk(std::uint64_t coroutine, bool& running) const;
  bool has_nothing_due(std::uint64_t loop) const;
  void add_waiter(std::uint64_t waiter, AsyncTask& task) const;

  const Heap& heap_;
  const Frames& frames_;
  const Options& options_;
};

}  // namespace pm::cpython
