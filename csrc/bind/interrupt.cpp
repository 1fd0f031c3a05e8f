#include "bind/interrupt.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace pm::bind {
namespace {

volatile std::sig_atomic_t interrupted = 0;
struct sigaction before;

void note(int number, siginfo_t* info, void* context) {
  interrupted = 1;
  if (before.sa_flags & SA_SIGINFO) {
    before.sa_sigaction(number, info, context);
  } else {
    before.sa_handler(number);
  }
}

}  // namespace

InterruptWatch::InterruptWatch() noexcept {
  if (::getpid() != static_cast<pid_t>(::syscall(SYS_gettid))) return;
  if (::sigaction(SIGINT, nullptr, &before) != 0) return;
  if (!(before.sa_flags & SA_SIGINFO) &&
      (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN)) {
    return;
  }
  interrupted = 0;
  struct sigaction mine = {};
  mine.sa_sigaction = note;
  mine.sa_flags = SA_SIGINFO;
  sigemptyset(&mine.sa_mask);
  active_ = ::sigaction(SIGINT, &mine, nullptr) == 0;
}

InterruptWatch::~InterruptWatch() {
  if (active_) ::sigaction(SIGINT, &before, nullptr);
  interrupted = 0;
}

bool InterruptWatch::seen() noexcept { return interrupted != 0; }

}  // namespace pm::bind
