#include "live/guardian.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

namespace pm::live {
namespace {

// All that runs in the child is async-signal-safe: other threads of ours may have held any lock
// when it was made.

constexpr int kLooks = 2000;  // of 5 ms: a debugger that waits for a dead disk dies late
constexpr int kQuietLooks = 100;
constexpr unsigned kMostDescriptors = 1 << 16;

struct State {
  char letter = 0;  // 0: it is gone
  bool traced = false;
};

State state_of(const char* status_path) noexcept {
  State state;
  const int fd = open(status_path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return state;
  std::array<char, 2048> text{};
  const ssize_t count = read(fd, text.data(), text.size() - 1);
  close(fd);
  if (count <= 0) return state;
  if (const char* const at = std::strstr(text.data(), "\nState:\t")) state.letter = at[8];
  if (const char* const at = std::strstr(text.data(), "\nTracerPid:\t")) {
    state.traced = at[12] != '0';
  }
  return state;
}

bool is_stopped(const State& state) noexcept { return state.letter == 'T' || state.letter == 't'; }

void keep_only(int descriptor) noexcept {
#ifdef SYS_close_range
  const auto mine = static_cast<unsigned>(descriptor);
  if ((mine == 0 || syscall(SYS_close_range, 0U, mine - 1, 0U) == 0) &&
      syscall(SYS_close_range, mine + 1, ~0U, 0U) == 0) {
    return;
  }
#endif
  const long limit = sysconf(_SC_OPEN_MAX);
  const long most = limit < 0 || limit > kMostDescriptors ? kMostDescriptors : limit;
  for (int fd = 0; fd < most; ++fd) {
    if (fd != descriptor) close(fd);
  }
}

// A debugger's attach sends a SIGSTOP. Where the debugger dies before it has seen that, the signal
// stops the process for good.
void wake(std::int32_t target, const char* status_path) noexcept {
  for (int look = 0, quiet = 0; look < kLooks && quiet < kQuietLooks; ++look) {
    const State state = state_of(status_path);
    if (state.letter == 0) return;
    const bool stands = is_stopped(state);
    if (stands && !state.traced) kill(target, SIGCONT);
    quiet = stands || state.traced ? 0 : quiet + 1;
    const timespec time{0, 5'000'000};
    nanosleep(&time, nullptr);
  }
}

// Returns whether the other end is gone; false: it was told that there is nothing to do.
bool is_abandoned(int pipe) noexcept {
  char byte = 0;
  ssize_t count = 0;
  do {
    count = read(pipe, &byte, 1);
  } while (count < 0 && errno == EINTR);
  return count != 1;
}

[[noreturn]] void guard(int pipe, std::int32_t target, const char* status_path) noexcept {
  setpgid(0, 0);
  keep_only(pipe);
  const bool was_stopped = target > 0 && is_stopped(state_of(status_path));
  if (is_abandoned(pipe)) {
    if (target == 0) kill(0, SIGKILL);
    if (!was_stopped) wake(target, status_path);
  }
  _exit(0);
}

}  // namespace

Guardian start_guardian(std::int32_t target) noexcept {
  Guardian started;
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    started.error = errno;
    return started;
  }
  std::array<char, 32> status_path{};
  std::snprintf(status_path.data(), status_path.size(), "/proc/%d/status", target);
  // A signal that is sent to our group meanwhile must not meet handlers of ours in the child.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[1]);
    guard(ends[0], target, status_path.data());
  }
  started.error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  close(ends[0]);
  if (child < 0) {
    close(ends[1]);
    return started;
  }
  setpgid(child, child);  // here too: what joins the group must find it
  started.pid = child;
  started.pipe = ends[1];
  return started;
}

}  // namespace pm::live
