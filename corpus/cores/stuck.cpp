// Threads that wait for each other; each function returns when both are about to be stuck.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
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

void allocate(std::size_t size) {
  void* volatile kept = malloc(size);  // compilers leave out what nobody sees
  free(kept);
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

// A thread is stuck where its handler of SIGUSR1 comes while malloc holds the heap's lock.
extern "C" void allocate_in_handler() {
  signal(SIGUSR1, [](int) { allocate(100000); });
  std::thread loader([] {
    for (std::size_t size = 2000;; size = size % 50000 + 2000) allocate(size);
  });
  std::thread([thread = loader.native_handle()] {
    while (usleep(200) == 0) pthread_kill(thread, SIGUSR1);
  }).detach();
  loader.detach();
}
