// Threads that wait for each other; each function returns when both are about to be stuck.
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>

namespace {

std::mutex first, second;
std::atomic<int> holding{0};

void take_both(std::mutex& outer, std::mutex& inner) {
  const std::lock_guard<std::mutex> keep(outer);
  ++holding;
  while (holding < 2) std::this_thread::yield();
  const std::lock_guard<std::mutex> never(inner);
}

}  // namespace

extern "C" void two_mutexes() {
  std::thread(take_both, std::ref(first), std::ref(second)).detach();
  std::thread(take_both, std::ref(second), std::ref(first)).detach();
}

// Through ctypes.CDLL, without the GIL: takes the mutex, then calls back into Python.
extern "C" void call_with_mutex(void (*callback)()) {
  const std::lock_guard<std::mutex> keep(first);
  callback();
}

// Through ctypes.PyDLL, with the GIL.
extern "C" void take_mutex() {
  const std::lock_guard<std::mutex> never(first);
}
