// Ends that are easily told wrongly; called through ctypes by call.py.
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

class ShardError : public std::exception {
 public:
  explicit ShardError(int shard) : text_("shard " + std::to_string(shard) + " ends too early") {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  int shard_ = 0;
  std::string text_;
};

void last_words() {
  fputs("giving up\n", stderr);
  abort();
}

__attribute__((noinline)) void store_third(volatile int* header) { header[2] = 1; }

}  // namespace

extern "C" {

void own_exception() { throw ShardError(7); }

void broken_promise() {
  std::future<int> answer;
  {
    std::promise<int> promise;
    answer = promise.get_future();
  }
  answer.get();
}

void own_terminate_handler() {
  std::set_terminate(last_words);
  throw std::runtime_error("the index is stale");
}

void cancel_noexcept() {
  std::thread waiter([]() noexcept {
    for (;;) pause();
  });
  pthread_cancel(waiter.native_handle());
  waiter.join();
}

void hit_by_another_thread() {
  const pthread_t main_thread = pthread_self();
  std::thread([main_thread] {
    for (;;) {
      usleep(100'000);
      pthread_kill(main_thread, SIGSEGV);
    }
  }).detach();
  for (;;) pause();
}

void minus_one() {
  // MAP_FAILED, unchecked, as a pointer to a header whose third word is set.
  int* volatile header = static_cast<int*>(mmap(nullptr, 0, PROT_READ, MAP_PRIVATE, -1, 0));
  store_third(header);
}

void lost_stack() {
#ifdef __x86_64__
  asm volatile("movabs $0x8000000000000000, %%rsp; push %%rax" ::: "memory");
#endif
}

void select_many() {
  fd_set set;
  FD_ZERO(&set);
  volatile int descriptor = 2000;
  FD_SET(descriptor, &set);
}

void closed_stream() {
  // A FILE whose table of functions was overwritten.
  static long zeros[64];
  FILE* stream = fopen("/dev/null", "w");
  *reinterpret_cast<void**>(reinterpret_cast<char*>(stream) + 216) = zeros;
  fputc('x', stream);
  fflush(stream);
}

void free_text() {
  void* volatile pointer = reinterpret_cast<void*>(0x6d6f64656c2e7074);
  free(pointer);
}
}
