#include "cpython/threads.h"

#include <algorithm>

namespace pm::cpython {
namespace {

constexpr std::size_t kMaxThreads = 65'536;
constexpr std::size_t kMaxInterpreters = 1024;
constexpr std::size_t kThreadNameLimit = 200;

// Thread pointer (pthread_self() on x86-64 with glibc and musl) to kernel id. Before the id that
// Python wrote down: that one is stale in a forked child of 3.11 (a DataLoader worker).
std::int32_t tid_of(const elfcore::Core& core, std::uint64_t ident, std::uint64_t native) {
  for (const elfcore::ThreadState& thread : core.threads()) {
    if (ident != 0 && thread.tls == ident) return thread.tid;
  }
  for (const elfcore::ThreadState& thread : core.threads()) {
    if (native != 0 && static_cast<std::uint32_t>(thread.tid) == native) return thread.tid;
  }
  // aarch64: struct pthread lies right below the thread pointer.
  for (const elfcore::ThreadState& thread : core.threads()) {
    if (core.machine() == elfcore::Machine::aarch64 && ident != 0 && thread.tls > ident &&
        thread.tls - ident < 4096) {
      return thread.tid;
    }
  }
  return 0;
}

std::vector<std::uint64_t> interpreters_of(const Heap& heap, const Runtime& runtime) {
  std::vector<std::uint64_t> result;
  std::uint64_t next = heap.pointer(runtime.address, heap.layout().runtime_interpreters);
  while (next && result.size() < kMaxInterpreters &&
         std::find(result.begin(), result.end(), next) == result.end()) {
    result.push_back(next);
    next = heap.pointer(next, heap.layout().interp_next);
  }
  return result;
}

}  // namespace

std::vector<ThreadState> read_threads(const Heap& heap, const Runtime& runtime,
                                      Problems& problems) {
  const Layout& at = heap.layout();
  const elfcore::Core& core = heap.memory().core();
  std::vector<ThreadState> result;
  std::unordered_map<std::uint64_t, bool> seen;
  for (const std::uint64_t interpreter : interpreters_of(heap, runtime)) {
    std::uint64_t next = heap.pointer(interpreter, at.interp_threads);
    while (next && result.size() < kMaxThreads) {
      if (!seen.emplace(next, true).second || heap.pointer(next, at.thread_interp) != interpreter) {
        problems.add(runtime.library, "the list of Python threads is broken after " +
                                          std::to_string(result.size()) + " threads");
        break;
      }
      ThreadState state{next, interpreter, heap.pointer(next, at.thread_ident), 0};
      const std::uint64_t native = heap.pointer(next, at.thread_native_id);
      state.tid = tid_of(core, state.ident, native);
      // A thread of several interpreters has a state in each.
      result.push_back(state);
      next = heap.pointer(next, at.thread_next);
    }
  }
  return result;
}

std::unordered_map<std::uint64_t, ThreadObject> read_thread_objects(
    const Heap& heap, const std::vector<ThreadState>& threads) {
  std::unordered_map<std::uint64_t, ThreadObject> found;
  std::uint64_t last = 0;
  for (const ThreadState& thread : threads) {
    if (thread.interpreter == last) continue;
    last = thread.interpreter;
    const std::uint64_t modules = heap.pointer(last, heap.layout().interp_modules);
    const std::uint64_t threading = heap.lookup(modules, "threading");
    // A module's dict is its first field (PyModuleObject.md_dict).
    const std::uint64_t active =
        heap.lookup(heap.pointer(threading, heap.layout().object_head), "_active");
    heap.each(active, [&](std::uint64_t ident, std::uint64_t object) {
      const auto key = heap.integer(ident);
      const auto name = heap.text(heap.attribute(object, "_name"), kThreadNameLimit);
      if (key && name) {
        const std::uint64_t end = heap.attribute(object, "_tstate_lock");
        found.emplace(static_cast<std::uint64_t>(*key), ThreadObject{object, *name, end});
      }
      return found.size() < kMaxThreads;
    });
  }
  return found;
}

std::vector<std::uint64_t> read_gils(const Heap& heap, const Runtime& runtime) {
  const Layout& at = heap.layout();
  std::vector<std::uint64_t> locks;
  if (at.interp_gil >= 0) {  // 3.12: interpreters may have one of their own, or share the first's
    for (const std::uint64_t interpreter : interpreters_of(heap, runtime)) {
      locks.push_back(heap.pointer(interpreter, at.interp_gil));
    }
  } else if (at.runtime_gil >= 0) {
    locks.push_back(runtime.address + static_cast<std::uint64_t>(at.runtime_gil));
  }
  return locks;
}

bool is_gil_enabled(const Heap& heap, std::uint64_t gil) {
  const std::int32_t field = heap.layout().gil_enabled;
  return field < 0 || heap.field<std::int32_t>(gil, field).value_or(0) != 0;
}

std::vector<std::uint64_t> read_gil_holders(const Heap& heap,
                                            const std::vector<std::uint64_t>& gils,
                                            const std::vector<ThreadState>& threads) {
  const Layout& at = heap.layout();
  std::vector<std::uint64_t> holders;
  for (const std::uint64_t lock : gils) {
    if (heap.field<std::int32_t>(lock, at.gil_locked).value_or(0) != 1) continue;
    if (!is_gil_enabled(heap, lock)) continue;
    const std::uint64_t holder = heap.pointer(lock, at.gil_holder);
    // Only a thread that exists: else this was no GIL.
    for (const ThreadState& thread : threads) {
      if (thread.address == holder) holders.push_back(holder);
    }
  }
  return holders;
}

}  // namespace pm::cpython
