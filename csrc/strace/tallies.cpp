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

std::uint64_t FolderTally::Key::hash() const noexcept {
  std::uint64_t mixed = folder.size() ^ (std::uint64_t{pid} << 32);
  const char* at = folder.data();
  std::size_t left = folder.size();
  for (; left >= 8; left -= 8, at += 8) {
    std::uint64_t word;
    std::memcpy(&word, at, sizeof word);
    mixed = (mixed ^ word) * 0xff51afd7ed558ccdULL;
    mixed ^= mixed >> 32;
  }
  std::uint64_t word = 0;
  std::memcpy(&word, at, left);
  mixed = (mixed ^ word) * 0xff51afd7ed558ccdULL;
  return mixed ^ (mixed >> 32);
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

Pace pace_of(std::uint16_t call) noexcept {
  return call < Classes::get().pace.size() ? Classes::get().pace[call] : Pace::work;
}

bool is_lookup(std::uint16_t call) noexcept {
  return call < Classes::get().lookup.size() && Classes::get().lookup[call] != 0;
}

}  // namespace pm::strace
