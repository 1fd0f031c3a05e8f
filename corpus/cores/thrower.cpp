// What goes wrong inside a C++ extension, one function each, called through ctypes.
#include <pthread.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default"), noinline))
#define KEEP __attribute__((noinline))

namespace c10d {

class DistBackendError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  int rank = 3;
};

// The shape of PyTorch 2.2 to 2.7: the watchdog finds the error itself.
struct ProcessGroupNCCL {
  struct WorkNCCL {
    std::exception_ptr exception_;
    KEEP void checkTimeout() {
      throw DistBackendError(
          "NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details), "
          "NCCL version 2.27.5");
    }
    // The shape of PyTorch 1.11 to 1.13: a stored exception is thrown again.
    KEEP void handleNCCLGuard() {
      std::rethrow_exception(exception_);
    }
  };
  WorkNCCL work;
  KEEP void watchdogHandler() {
    work.checkTimeout();
    asm volatile("");
  }
  KEEP void ncclCommWatchdog() {
    pthread_setname_np(pthread_self(), "pt_nccl_watchdg");
    watchdogHandler();
    asm volatile("");
  }
  KEEP void workCleanupLoop() {
    try {
      throw DistBackendError("NCCL error in: ProcessGroupNCCL.cpp:1269, unhandled system error");
    } catch (...) {
      work.exception_ = std::current_exception();
    }
    work.handleNCCLGuard();
    asm volatile("");
  }
};

}  // namespace c10d

static c10d::ProcessGroupNCCL group;

EXPORT void start_watchdog() {
  std::thread([] { group.ncclCommWatchdog(); }).join();
}

EXPORT void start_cleanup_loop() {
  std::thread([] { group.workCleanupLoop(); }).join();
}

EXPORT void free_inside() {
  // Zeros, so that the word before the pointer is no leftover flag of malloc's.
  volatile std::uintptr_t block = reinterpret_cast<std::uintptr_t>(std::calloc(8, 8)) + 8;
  std::free(reinterpret_cast<void*>(block));
}

EXPORT void free_twice() {
  void* volatile block = std::malloc(4000);
  void* volatile wall = std::malloc(64);
  std::free(block);
  std::free(block);
  std::free(wall);
}

EXPORT int recurse(int depth, char* before) {
  char buffer[4096];
  buffer[0] = static_cast<char>(depth);
  buffer[1] = before ? before[0] : 0;
  const int below = recurse(depth + 1, buffer);
  return below + buffer[1];
}

EXPORT void call_null() {
  void (*volatile handler)() = nullptr;
  handler();
}

EXPORT long read_wild() {
  volatile std::uintptr_t address = 0x6465706f6f6c2f72;  // text where a pointer should be
  return *reinterpret_cast<volatile long*>(address);
}

EXPORT void write_constant() {
  static const char text[] = "constant";
  volatile std::uintptr_t address = reinterpret_cast<std::uintptr_t>(&text[0]);
  *reinterpret_cast<volatile char*>(address) = 'C';
}

EXPORT int divide(int by) {
  volatile int denominator = by;
  return 100 / denominator;
}

EXPORT void trap() {
  __builtin_trap();
}

EXPORT void give_up() {
  std::abort();
}

EXPORT void leave_thread_joinable() {
  std::thread sleeper([] { std::this_thread::sleep_for(std::chrono::seconds(100)); });
}

EXPORT void throw_logic_error() {
  throw std::out_of_range("vector::_M_range_check: __n (which is 12) >= this->size() (which is 3)");
}

EXPORT void throw_number() {
  throw 42;
}

EXPORT void exhaust_memory() {
  volatile std::size_t size = std::size_t{1} << 46;
  ::operator delete(::operator new(size));
}

struct Base {
  virtual ~Base() { run(); }
  KEEP void run() { step(); }
  virtual void step() = 0;
};
struct Derived : Base {
  void step() override {}
};

EXPORT void call_pure_virtual() {
  std::unique_ptr<Base> object = std::make_unique<Derived>();
}

EXPORT void throw_from_noexcept() {
  []() noexcept { throw std::runtime_error("the file list is empty"); }();
}

EXPORT void crash_at_exit() {
  std::atexit([] { *static_cast<volatile int*>(nullptr) = 1; });
}

EXPORT void crash_in_catch() {
  try {
    throw std::runtime_error("the first attempt failed");
  } catch (const std::exception&) {
    *static_cast<volatile int*>(nullptr) = 1;
  }
}

// std::thread makes an exception of EAGAIN; what is in the way is ulimit -v.
EXPORT void start_threads() {
  std::vector<std::thread> threads;
  for (;;) {
    threads.emplace_back([] { std::this_thread::sleep_for(std::chrono::hours(1)); });
  }
}
