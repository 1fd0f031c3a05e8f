// Interpreters and thread states: whose they are, what they are called, who holds the GIL.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "cpython/heap.h"
#include "cpython/runtime.h"

namespace pm::cpython {

struct ThreadState {
  std::uint64_t address = 0;
  std::uint64_t interpreter = 0;
  std::uint64_t ident = 0;  // threading.get_ident(): the pthread_t
  std::int32_t tid = 0;     // 0: no thread of the core
};

std::vector<ThreadState> read_threads(const Heap& heap, const Runtime& runtime, Problems& problems);

// A threading.Thread.
struct ThreadObject {
  std::uint64_t address = 0;
  std::string name;
  std::uint64_t end_lock = 0;  // `_tstate_lock` up to 3.12: released when the thread ends
};

// By ident, from `threading._active`.
std::unordered_map<std::uint64_t, ThreadObject> read_thread_objects(
    const Heap& heap, const std::vector<ThreadState>& threads);

// Addresses of the GILs, that of the main interpreter last.
std::vector<std::uint64_t> read_gils(const Heap& heap, const Runtime& runtime);
// Whether threads have to hold a GIL: in a free-threaded build it is off until somebody asks for it
// (PYTHON_GIL=1, a module that does not declare support).
bool is_gil_enabled(const Heap& heap, std::uint64_t gil);

// Addresses of the thread states that hold one of the GILs.
std::vector<std::uint64_t> read_gil_holders(const Heap& heap,
                                            const std::vector<std::uint64_t>& gils,
                                            const std::vector<ThreadState>& threads);

}  // namespace pm::cpython
