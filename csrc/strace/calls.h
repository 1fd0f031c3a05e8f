// What is known of each system call: what it does to descriptors, and which argument is to blame.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace pm::strace {

// What a call does to the state that the tracker keeps.
enum class Op : std::uint8_t {
  none,
  open,
  openat,
  creat,
  close,
  dup,
  fcntl,
  ioctl,
  pair,  // pipe, pipe2, socketpair: two descriptors in an array
  socket,
  accept,
  create,  // eventfd, epoll_create, …: a descriptor without a name
  memfd,
  pidfd_open,
  pidfd_getfd,
  close_range,
  fork,  // fork, vfork, clone, clone3
  exec,
  chdir,
  fchdir,
  chroot,
  getcwd,
  readlink,
  unshare,
  setns,
  self,    // getpid, gettid, set_tid_address: the result is the caller's pid
  thread,  // set_robust_list, rseq: what a thread of glibc does first
  sendmsg,
  recvmsg,
  connect,
  bind,
  mmap,
  munmap,
  mremap,
  rename,
  renameat,
  linkat,
  unlink,
  unlinkat,
  rmdir,
  write,  // result is bytes that went, to the descriptor that the role names
  iouring,
  kill,
  exit,  // exit, exit_group
  // From here on only the summary asks.
  read,        // result is bytes that came
  wait,        // poll, select, epoll_wait: 0 is that time ran out
  watch,       // epoll_ctl
  getsockopt,  // SO_ERROR: how a connect() in progress ended
  getsockname,
};

// Which argument a failure of the call is about.
enum class Role : std::uint8_t {
  none,
  fd,     // argument `first`
  path,   // argument `first`, relative to the working directory
  at,     // directory descriptor `first`, path `second`
  peer,   // descriptor `first`, socket address `second`
  paths,  // paths `first` and `second`
  ats,    // directory `first` and path `first + 1`; directory `second` and path `second + 1`
};

struct Call {
  std::string_view name;
  Op op = Op::none;
  Role role = Role::none;
  std::uint8_t first = 0;
  std::uint8_t second = 0;
};

constexpr std::uint16_t kUnknownCall = 0xffff;

// The names, hashed by their first 16 bytes.
class CallTable {
 public:
  static const CallTable& get() noexcept;

  // Index of a call by its name, or kUnknownCall. `name` need not be terminated, but 16 bytes from
  // its start must be readable.
  std::uint16_t find(const char* name, std::size_t length) const noexcept {
    if (length == 0 || length > 31) return kUnknownCall;
    const Key key(name, length);
    for (std::size_t at = key.hash(length);; at = (at + 1) % kSlots) {
      const Slot& slot = slots_[at];
      if (slot.length == 0) return kUnknownCall;
      if (slot.low != key.low || slot.high != key.high || slot.length != length) continue;
      if (length <= 16) return slot.index;
      if (calls_[slot.index].name == std::string_view(name, length)) return slot.index;
    }
  }

  const Call& at(std::uint16_t index) const noexcept { return calls_[index]; }
  std::size_t size() const noexcept { return calls_.size(); }

 private:
  struct Slot {
    std::uint64_t low = 0;
    std::uint64_t high = 0;
    std::uint16_t index = kUnknownCall;
    std::uint8_t length = 0;
  };
  struct Key {
    std::uint64_t low;
    std::uint64_t high;
    Key(const char* name, std::size_t length) noexcept
        : low(word(name) & kFirst[length < 8 ? length : 8]),
          high(word(name + 8) & kFirst[length < 8    ? 0
                                       : length < 16 ? length - 8
                                                     : 8]) {}
    std::size_t hash(std::size_t length) const noexcept {
      const std::uint64_t mixed = low ^ (high * 0xff51afd7ed558ccdULL) ^ length;
      return (mixed * 0x9e3779b97f4a7c15ULL) >> 53;
    }
    // The first bytes of a word, as many as the index says.
    static constexpr std::array<std::uint64_t, 9> kFirst = {
        0,
        0xff,
        0xffff,
        0xff'ffff,
        0xffff'ffff,
        0xff'ffff'ffff,
        0xffff'ffff'ffff,
        0xff'ffff'ffff'ffff,
        0xffff'ffff'ffff'ffff,
    };
    static std::uint64_t word(const char* at) noexcept {
      std::uint64_t value;
      std::memcpy(&value, at, sizeof value);
      return value;
    }
  };
  static constexpr std::size_t kSlots = 2048;  // 53 = 64 - log2

  CallTable();
  void add(const Call& call);
  void place(std::string_view name, std::size_t index);

  std::array<Slot, kSlots> slots_{};
  std::vector<Call> calls_;
};

std::uint16_t find_call(const char* name, std::size_t length) noexcept;

const Call& call_at(std::uint16_t index) noexcept;
std::size_t call_count() noexcept;

}  // namespace pm::strace
