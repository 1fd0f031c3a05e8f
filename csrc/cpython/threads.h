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

// threading.Thread.name by ident, from `threading._active`.
std::unordered_map<std::uint64_t, std::string> read_thread_names(
    const Heap& heap, const std::vector<ThreadState>& threads);

// Addresses of the thread states that hold a GIL: one per interpreter at most.
std::vector<std::uint64_t> read_gil_holders(const Heap& heap, const Runtime& runtime,
                                            const std::vector<ThreadState>& threads);

}  // namespace pm::cpython
