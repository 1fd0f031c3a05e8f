#include "strace/tallies.h"

#include <algorithm>
#include <cstring>

namespace pm::strace {
namespace {

constexpr std::string_view kWaiting[] = {
    "futex",
    "futex_time64",
    "futex_wait",
    "futex_waitv",
    "poll",
    "ppoll",
    "ppoll_time64",
    "select",
    "_newselect",
    "pselect6",
    "pselect6_time64",
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "wait4",
    "waitid",
    "waitpid",
    "nanosleep",
    "clock_nanosleep",
    "clock_nanosleep_time64",
    "pause",
    "rt_sigtimedwait",
    "rt_sigtimedwait_time64",
    "rt_sigsuspend",
    "sigsuspend",
    "restart_syscall",
    "io_getevents",
    "io_pgetevents",
    "io_pgetevents_time64",
    "accept",
    "accept4",
    "msgrcv",
    "semop",
    "semtimedop",
    "semtimedop_time64",
    "mq_timedreceive",
    "sched_yield",
    "io_uring_enter",
};

constexpr std::string_view kLookups[] = {
    "open",     "openat",     "openat2",   "creat",    "stat",      "stat64",    "lstat",
    "lstat64",  "newfstatat", "fstatat64", "statx",    "access",    "faccessat", "faccessat2",
    "readlink", "readlinkat", "mkdir",     "mkdirat",  "rmdir",     "unlink",    "unlinkat",
    "rename",   "renameat",   "renameat2", "chmod",    "fchmodat",  "chown",     "lchown",
    "fchownat", "utimensat",  "statfs",    "getxattr", "lgetxattr", "listxattr", "llistxattr",
    "mknod",    "mknodat",    "truncate",  "link",     "linkat",    "symlink",   "symlinkat",
};

struct Classes {
  std::vector<Pace> pace;
  std::vector<std::uint8_t> lookup;
  Classes() : pace(call_count(), Pace::work), lookup(call_count(), 0) {
    for (std::uint16_t i = 0; i < call_count(); ++i) {
      const Call& call = call_at(i);
      if (call.op == Op::read || call.op == Op::recvmsg || call.op == Op::connect) {
        pace[i] = Pace::reading;
      }
      const auto among = [&](const auto& names) {
        return std::find(std::begin(names), std::end(names), call.name) != std::end(names);
      };
      if (among(kWaiting)) pace[i] = Pace::waiting;
      lookup[i] = among(kLookups);
    }
  }
  static const Classes& get() {
    static const Classes made;
    return made;
  }
};

}  // namespace

// The ends of a path tell most of it; what they do not, operator== does.
std::uint64_t FolderTally::Key::hash() const noexcept {
  std::uint64_t mixed = folder.size() ^ (std::uint64_t{pid} << 32);
  const auto mix = [&](const char* at, std::size_t size) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, size);
    mixed = (mixed ^ word) * 0xff51afd7ed558ccdULL;
    mixed ^= mixed >> 32;
  };
  const char* const end = folder.data() + folder.size();
  if (folder.size() < 8) {
    mix(folder.data(), folder.size());
    return mixed;
  }
  mix(end - 8, 8);
  if (folder.size() >= 24) {
    mix(end - 16, 8);
    mix(end - 24, 8);
  } else {
    mix(folder.data(), 8);
  }
  return mixed;
}

bool Longest::insert(Heap& heap, std::uint64_t nanoseconds) noexcept {
  auto least = std::min_element(heap.times.begin(), heap.times.end());
  *least = nanoseconds;
  heap.least = std::max(kLeast, *std::min_element(heap.times.begin(), heap.times.end()) + 1);
  return true;
}

void Tallies::clear() {
  calls.clear();
  folders.clear();
  futexes.clear();
  longest.clear();
  first_time = last_time = -1;
}

const Pace* paces() noexcept { return Classes::get().pace.data(); }

const std::uint8_t* lookups() noexcept { return Classes::get().lookup.data(); }

Pace pace_of(std::uint16_t call) noexcept {
  return call < call_count() ? paces()[call] : Pace::work;
}

std::string_view word_of(Pace pace) noexcept {
  static constexpr std::string_view kWords[] = {"work", "reading", "waiting"};
  return kWords[static_cast<std::size_t>(pace)];
}

}  // namespace pm::strace
