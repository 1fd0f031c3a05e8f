// Ends of a process that leave little in the core's siginfo; called through ctypes by call.py.
#include <alloca.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <exception>
#include <stdexcept>

namespace {

struct Options {
  int padding[6];
  int rate;
};

__attribute__((noinline)) void set_rate(volatile Options* options) { options->rate = 1; }

void raise_again(int signal_number) {
  signal(signal_number, SIG_DFL);
  raise(signal_number);  // blocked until the handler returns
}

void give_up(int) { abort(); }

void install(void (*handler)(int), int flags) {
  if (flags & SA_ONSTACK) {
    static char memory[64 << 10];
    stack_t stack = {};
    stack.ss_sp = memory;
    stack.ss_size = sizeof memory;
    sigaltstack(&stack, nullptr);
  }
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigaction(SIGSEGV, &action, nullptr);
}

__attribute__((noinline)) void call(void (*function)()) {
  function();
  asm volatile("");
}

__attribute__((noinline)) void fill(volatile char* buffer, long count) {
  for (long i = 0; i < count; i++) buffer[i] = 'A';
}

}  // namespace

extern "C" {

void null_with_handler() {
  install(raise_again, 0);
  set_rate(nullptr);
}

void null_with_handler_elsewhere() {
  install(raise_again, SA_ONSTACK);
  set_rate(nullptr);
}

void null_with_aborting_handler() {
  install(give_up, SA_ONSTACK);
  set_rate(nullptr);
}

void raise_on_purpose() { raise(SIGSEGV); }

void call_text() { call(reinterpret_cast<void (*)()>(0x4141414141414141)); }

__attribute__((noinline, optimize("no-stack-protector"))) void overwrite_return_address() {
  char buffer[16];
  fill(buffer, 96);
}

void privileged() {
#ifdef __x86_64__
  asm volatile("hlt");
#endif
}

void huge_array() {
  volatile long count = 64 << 20;
  char* array = static_cast<char*>(alloca(count));
  array[0] = 1;
  fill(array, 1);
}

void watchdog() {
  struct sigevent event = {};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGABRT;
  timer_t timer;
  timer_create(CLOCK_MONOTONIC, &event, &timer);
  struct itimerspec after = {{0, 0}, {0, 50'000'000}};
  timer_settime(timer, 0, &after, nullptr);
  for (;;) pause();
}

void terminate_in_handler() {
  try {
    throw std::runtime_error("the shard is empty");
  } catch (const std::exception&) {
    std::terminate();
  }
}

void throw_text() { throw "no such shard"; }
}
