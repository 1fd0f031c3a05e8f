// The table of system calls. Names are those of the kernel's tables (arch/*/entry/syscalls), the
// 32-bit ones among them; roles are from the man pages of section 2.
#include "strace/calls.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

namespace pm::strace {
namespace {

constexpr Call kSpecialCalls[] = {
    {"open", Op::open, Role::path, 0, 0},
    {"openat", Op::openat, Role::at, 0, 1},
    {"openat2", Op::openat, Role::at, 0, 1},
    {"open_tree", Op::openat, Role::at, 0, 1},
    {"open_tree_attr", Op::openat, Role::at, 0, 1},
    {"creat", Op::creat, Role::path, 0, 0},
    {"close", Op::close, Role::fd, 0, 0},
    {"dup", Op::dup, Role::fd, 0, 0},
    {"dup2", Op::dup, Role::fd, 0, 0},
    {"dup3", Op::dup, Role::fd, 0, 0},
    {"fcntl", Op::fcntl, Role::fd, 0, 0},
    {"fcntl64", Op::fcntl, Role::fd, 0, 0},
    {"ioctl", Op::ioctl, Role::fd, 0, 0},
    {"pipe", Op::pair, Role::none, 0, 0},
    {"pipe2", Op::pair, Role::none, 0, 0},
    {"socketpair", Op::pair, Role::none, 3, 0},
    {"socket", Op::socket, Role::none, 0, 0},
    {"accept", Op::accept, Role::fd, 0, 1},
    {"accept4", Op::accept, Role::fd, 0, 1},
    {"eventfd", Op::create, Role::none, 0, 0},
    {"eventfd2", Op::create, Role::none, 0, 0},
    {"epoll_create", Op::create, Role::none, 0, 0},
    {"epoll_create1", Op::create, Role::none, 0, 0},
    {"timerfd_create", Op::create, Role::none, 0, 0},
    {"signalfd", Op::create, Role::fd, 0, 0},
    {"signalfd4", Op::create, Role::fd, 0, 0},
    {"inotify_init", Op::create, Role::none, 0, 0},
    {"inotify_init1", Op::create, Role::none, 0, 0},
    {"fanotify_init", Op::create, Role::none, 0, 0},
    {"userfaultfd", Op::create, Role::none, 0, 0},
    {"perf_event_open", Op::create, Role::none, 0, 0},
    {"landlock_create_ruleset", Op::create, Role::none, 0, 0},
    {"bpf", Op::create, Role::none, 0, 0},
    {"mq_open", Op::create, Role::path, 0, 0},
    {"fsopen", Op::create, Role::none, 0, 0},
    {"fspick", Op::create, Role::at, 0, 1},
    {"fsmount", Op::create, Role::fd, 0, 0},
    {"memfd_secret", Op::create, Role::none, 0, 0},
    {"open_by_handle_at", Op::create, Role::fd, 0, 0},
    {"io_submit", Op::aio_submit, Role::none, 0, 0},
    {"io_getevents", Op::aio_events, Role::none, 0, 0},
    {"io_pgetevents", Op::aio_events, Role::none, 0, 0},
    {"io_pgetevents_time64", Op::aio_events, Role::none, 0, 0},
    {"io_uring_setup", Op::iouring, Role::none, 0, 0},
    {"io_uring_enter", Op::iouring_enter, Role::fd, 0, 0},
    {"memfd_create", Op::memfd, Role::none, 0, 0},
    {"pidfd_open", Op::pidfd_open, Role::none, 0, 0},
    {"pidfd_getfd", Op::pidfd_getfd, Role::fd, 0, 0},
    {"close_range", Op::close_range, Role::none, 0, 0},
    {"clone", Op::fork, Role::none, 0, 0},
    {"clone2", Op::fork, Role::none, 0, 0},
    {"clone3", Op::fork, Role::none, 0, 0},
    {"fork", Op::fork, Role::none, 0, 0},
    {"vfork", Op::fork, Role::none, 0, 0},
    {"execve", Op::exec, Role::path, 0, 0},
    {"execveat", Op::exec, Role::at, 0, 1},
    {"chdir", Op::chdir, Role::path, 0, 0},
    {"fchdir", Op::fchdir, Role::fd, 0, 0},
    {"getcwd", Op::getcwd, Role::none, 0, 0},
    {"readlink", Op::readlink, Role::path, 0, 0},
    {"readlinkat", Op::readlink, Role::at, 0, 1},
    {"unshare", Op::unshare, Role::none, 0, 0},
    {"chroot", Op::chroot, Role::path, 0, 0},
    {"setns", Op::setns, Role::none, 0, 0},
    {"getpid", Op::self, Role::none, 0, 0},
    {"gettid", Op::self, Role::none, 0, 0},
    {"set_tid_address", Op::self, Role::none, 0, 0},
    {"set_robust_list", Op::thread, Role::none, 0, 0},
    {"rseq", Op::thread, Role::none, 0, 0},
    {"sendmsg", Op::sendmsg, Role::peer, 0, 1},
    {"sendmmsg", Op::sendmsg, Role::peer, 0, 1},
    {"recvmsg", Op::recvmsg, Role::fd, 0, 0},
    {"recvmmsg", Op::recvmsg, Role::fd, 0, 0},
    {"connect", Op::connect, Role::peer, 0, 1},
    {"bind", Op::bind, Role::peer, 0, 1},
    {"mmap", Op::mmap, Role::fd, 4, 0},
    {"mmap2", Op::mmap, Role::fd, 4, 0},
    {"munmap", Op::munmap, Role::none, 0, 0},
    {"mremap", Op::mremap, Role::none, 0, 0},
    {"rename", Op::rename, Role::paths, 0, 1},
    {"renameat", Op::renameat, Role::ats, 0, 2},
    {"renameat2", Op::renameat, Role::ats, 0, 2},
    {"link", Op::none, Role::paths, 0, 1},
    {"linkat", Op::linkat, Role::ats, 0, 2},
    {"symlink", Op::none, Role::path, 1, 0},
    {"symlinkat", Op::none, Role::at, 1, 2},
    {"unlink", Op::unlink, Role::path, 0, 0},
    {"unlinkat", Op::unlinkat, Role::at, 0, 1},
    {"rmdir", Op::rmdir, Role::path, 0, 0},
    {"read", Op::read, Role::fd, 0, 0},
    {"pread64", Op::read, Role::fd, 0, 0},
    {"readv", Op::read, Role::fd, 0, 0},
    {"preadv", Op::read, Role::fd, 0, 0},
    {"preadv2", Op::read, Role::fd, 0, 0},
    {"recvfrom", Op::read, Role::fd, 0, 0},
    {"recv", Op::read, Role::fd, 0, 0},
    {"write", Op::write, Role::fd, 0, 0},
    {"pwrite64", Op::write, Role::fd, 0, 0},
    {"writev", Op::write, Role::fd, 0, 0},
    {"pwritev", Op::write, Role::fd, 0, 0},
    {"pwritev2", Op::write, Role::fd, 0, 0},
    {"sendto", Op::write, Role::peer, 0, 4},
    {"send", Op::write, Role::fd, 0, 0},
    {"sendfile", Op::write, Role::fd, 0, 0},
    {"sendfile64", Op::write, Role::fd, 0, 0},
    {"copy_file_range", Op::write, Role::fd, 2, 0},
    {"splice", Op::write, Role::fd, 2, 0},
    {"tee", Op::write, Role::fd, 1, 0},
    {"vmsplice", Op::write, Role::fd, 0, 0},
    {"kill", Op::kill, Role::none, 0, 0},
    {"tkill", Op::kill, Role::none, 0, 0},
    {"tgkill", Op::kill, Role::none, 0, 0},
    {"pidfd_send_signal", Op::kill, Role::fd, 0, 0},
    {"exit", Op::exit, Role::none, 0, 0},
    {"exit_group", Op::exit, Role::none, 0, 0},
    {"poll", Op::wait, Role::none, 0, 0},
    {"ppoll", Op::wait, Role::none, 0, 0},
    {"ppoll_time64", Op::wait, Role::none, 0, 0},
    {"select", Op::wait, Role::none, 0, 0},
    {"_newselect", Op::wait, Role::none, 0, 0},
    {"pselect6", Op::wait, Role::none, 0, 0},
    {"pselect6_time64", Op::wait, Role::none, 0, 0},
    {"epoll_wait", Op::wait, Role::fd, 0, 0},
    {"epoll_pwait", Op::wait, Role::fd, 0, 0},
    {"epoll_pwait2", Op::wait, Role::fd, 0, 0},
    {"wait4", Op::reap, Role::none, 0, 0},
    {"waitid", Op::reap, Role::none, 0, 0},
    {"waitpid", Op::reap, Role::none, 0, 0},
    {"epoll_ctl", Op::watch, Role::fd, 2, 0},
    {"getsockopt", Op::getsockopt, Role::fd, 0, 0},
    {"getsockname", Op::getsockname, Role::fd, 0, 0},
};

constexpr std::string_view kFirstIsFd[] = {
    "lseek",
    "_llseek",
    "fstat",
    "fstat64",
    "fsync",
    "fdatasync",
    "ftruncate",
    "ftruncate64",
    "fallocate",
    "sync_file_range",
    "sync_file_range2",
    "syncfs",
    "flock",
    "fadvise64",
    "fadvise64_64",
    "readahead",
    "fchmod",
    "fchown",
    "fchown32",
    "fstatfs",
    "fstatfs64",
    "getdents",
    "getdents64",
    "fsetxattr",
    "fgetxattr",
    "flistxattr",
    "fremovexattr",
    "listen",
    "shutdown",
    "getpeername",
    "setsockopt",
    "timerfd_settime",
    "timerfd_gettime",
    "inotify_add_watch",
    "inotify_rm_watch",
    "mq_timedsend",
    "mq_timedreceive",
    "mq_notify",
    "mq_getsetattr",
    "io_uring_register",
    "process_madvise",
    "process_mrelease",
    "quotactl_fd",
    "finit_module",
    "fsconfig",
    "landlock_add_rule",
};

constexpr std::string_view kFirstIsPath[] = {
    "stat",      "stat64",    "lstat",      "lstat64",     "oldstat",      "oldlstat",
    "access",    "mkdir",     "truncate",   "truncate64",  "chmod",        "chown",
    "chown32",   "lchown",    "lchown32",   "statfs",      "statfs64",     "utime",
    "utimes",    "mknod",     "acct",       "setxattr",    "lsetxattr",    "getxattr",
    "lgetxattr", "listxattr", "llistxattr", "removexattr", "lremovexattr", "swapon",
    "swapoff",   "umount",    "umount2",    "uselib",      "pivot_root",   "mq_unlink",
    "quotactl",
};

constexpr std::string_view kFirstIsDirectory[] = {
    "mkdirat",       "mknodat",          "fchownat",   "futimesat",         "newfstatat",
    "fstatat64",     "fchmodat",         "fchmodat2",  "faccessat",         "faccessat2",
    "utimensat",     "utimensat_time64", "statx",      "name_to_handle_at", "move_mount",
    "mount_setattr", "setxattrat",       "getxattrat", "listxattrat",       "removexattrat",
    "file_getattr",  "file_setattr",
};

// Everything else, so that a name is known to be one.
constexpr const char* kOthers =
    "mprotect brk rt_sigaction rt_sigprocmask rt_sigreturn sched_yield msync mincore madvise "
    "shmget shmat shmctl pause nanosleep getitimer alarm setitimer uname semget semop "
    "semctl shmdt msgget msgsnd msgrcv msgctl umask gettimeofday getrlimit getrusage sysinfo "
    "times ptrace getuid syslog getgid setuid setgid geteuid getegid setpgid getppid getpgrp "
    "setsid setreuid setregid getgroups setgroups setresuid getresuid setresgid getresgid "
    "getpgid setfsuid setfsgid getsid capget capset rt_sigpending rt_sigtimedwait "
    "rt_sigqueueinfo rt_sigsuspend sigaltstack personality ustat sysfs getpriority "
    "setpriority sched_setparam sched_getparam sched_setscheduler sched_getscheduler "
    "sched_get_priority_max sched_get_priority_min sched_rr_get_interval mlock munlock "
    "mlockall munlockall vhangup modify_ldt _sysctl prctl arch_prctl adjtimex setrlimit sync "
    "settimeofday mount reboot sethostname setdomainname iopl ioperm create_module "
    "init_module delete_module get_kernel_syms query_module nfsservctl getpmsg putpmsg "
    "afs_syscall tuxcall security time futex sched_setaffinity sched_getaffinity "
    "set_thread_area io_setup io_destroy io_cancel get_thread_area "
    "lookup_dcookie epoll_ctl_old epoll_wait_old remap_file_pages restart_syscall semtimedop "
    "timer_create timer_settime timer_gettime timer_getoverrun timer_delete clock_settime "
    "clock_gettime clock_getres clock_nanosleep vserver mbind set_mempolicy get_mempolicy "
    "kexec_load add_key request_key keyctl ioprio_set ioprio_get migrate_pages "
    "get_robust_list move_pages rt_tgsigqueueinfo prlimit64 clock_adjtime "
    "getcpu process_vm_readv process_vm_writev kcmp sched_setattr sched_getattr seccomp "
    "getrandom kexec_file_load membarrier mlock2 pkey_mprotect pkey_alloc pkey_free "
    "landlock_restrict_self futex_waitv futex_wait futex_wake "
    "futex_requeue set_mempolicy_home_node cachestat map_shadow_stack statmount listmount "
    "lsm_get_self_attr lsm_set_self_attr lsm_list_modules mseal uretprobe bdflush break "
    "clock_adjtime64 clock_getres_time64 clock_gettime64 clock_nanosleep_time64 "
    "clock_settime64 ftime futex_time64 getegid32 geteuid32 getgid32 getgroups32 getresgid32 "
    "getresuid32 getuid32 ipc nice oldfstat readdir recvmmsg_time64 "
    "rt_sigtimedwait_time64 sched_rr_get_interval_time64 semtimedop_time64 setfsgid32 "
    "setfsuid32 setgid32 setgroups32 setregid32 setresgid32 setresuid32 setreuid32 setuid32 "
    "sgetmask sigaction signal sigpending sigprocmask sigreturn sigsuspend socketcall "
    "ssetmask stime timer_gettime64 timer_settime64 timerfd_gettime64 timerfd_settime64 "
    "ugetrlimit vm86 vm86old riscv_flush_icache s390_pci_mmio_read "
    "s390_runtime_instr cacheflush set_tls get_tls breakpoint usr26 usr32 arm_fadvise64_64 "
    "arm_sync_file_range";

// What a strace older than the kernel's headers of a program writes in place of a name:
// syscall_0x1b3(…). From this number on calls have the same one on every architecture but alpha
// (Linux 5.1, arch/*/kernel/syscalls/syscall.tbl), in this order.
constexpr unsigned kFirstNumbered = 424;
constexpr std::string_view kNumbered[] = {
    "pidfd_send_signal",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "open_tree",
    "move_mount",
    "fsopen",
    "fsconfig",
    "fsmount",
    "fspick",
    "pidfd_open",
    "clone3",
    "close_range",
    "openat2",
    "pidfd_getfd",
    "faccessat2",
    "process_madvise",
    "epoll_pwait2",
    "mount_setattr",
    "quotactl_fd",
    "landlock_create_ruleset",
    "landlock_add_rule",
    "landlock_restrict_self",
    "memfd_secret",
    "process_mrelease",
    "futex_waitv",
    "set_mempolicy_home_node",
    "cachestat",
    "fchmodat2",
    "map_shadow_stack",
    "futex_wake",
    "futex_wait",
    "futex_requeue",
    "statmount",
    "listmount",
    "lsm_get_self_attr",
    "lsm_set_self_attr",
    "lsm_list_modules",
    "mseal",
    "setxattrat",
    "getxattrat",
    "listxattrat",
    "removexattrat",
    "open_tree_attr",
    "file_getattr",
    "file_setattr",
};

}  // namespace

CallTable::CallTable() {
  for (const Call& call : kSpecialCalls) add(call);
  for (const auto name : kFirstIsFd) add({name, Op::none, Role::fd, 0, 0});
  for (const auto name : kFirstIsPath) add({name, Op::none, Role::path, 0, 0});
  for (const auto name : kFirstIsDirectory) add({name, Op::none, Role::at, 0, 1});
  std::string_view rest = kOthers;
  while (!rest.empty()) {
    const std::size_t end = rest.find(' ');
    add({rest.substr(0, end), Op::none, Role::none, 0, 0});
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
  }
  for (unsigned i = 0; i < std::size(kNumbered); ++i) {
    const auto known = std::find_if(calls_.begin(), calls_.end(),
                                    [&](const Call& call) { return call.name == kNumbered[i]; });
    if (known == calls_.end()) continue;
    char word[16];
    std::snprintf(word, sizeof word, "syscall_0x%x", kFirstNumbered + i);
    place(word, static_cast<std::size_t>(known - calls_.begin()));
  }
}

void CallTable::add(const Call& call) {
  calls_.push_back(call);
  place(call.name, calls_.size() - 1);
}

void CallTable::place(std::string_view name, std::size_t index) {
  char padded[48] = {};
  std::memcpy(padded, name.data(), name.size());
  const Key key(padded, name.size());
  std::size_t at = key.hash(name.size());
  while (slots_[at].length) at = (at + 1) % kSlots;
  const Op op = calls_[index].op;
  slots_[at] = {key.low, key.high, static_cast<std::uint16_t>(index),
                static_cast<std::uint8_t>(name.size()), op == Op::none || op >= Op::read};
}

const CallTable& CallTable::get() noexcept {
  static const CallTable made;
  return made;
}

std::uint16_t find_call(const char* name, std::size_t length) noexcept {
  return CallTable::get().find(name, length);
}

const Call& call_at(std::uint16_t index) noexcept { return CallTable::get().at(index); }

std::size_t call_count() noexcept { return CallTable::get().size(); }

}  // namespace pm::strace
