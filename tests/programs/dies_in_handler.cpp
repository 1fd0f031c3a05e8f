// An illegal instruction is caught by a handler that aborts: under a signal handler the frame stands
// at the instruction itself, not behind a call. Build with -g -O1.
#include <csignal>
#include <cstdlib>

extern "C" void handler(int) { std::abort(); }

[[gnu::noinline]] void work() {
  asm volatile("nop");
#if defined(__x86_64__)
  asm volatile("ud2");  // LINE trap
#else
  __builtin_trap();  // LINE elsewhere
#endif
}

int main() {
  std::signal(SIGILL, handler);
  work();
  return 0;
}
