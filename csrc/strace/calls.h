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
  write,          // result is bytes that went, to the descriptor that the role names
  iouring,        // io_uring_setup: a descriptor, and with SQPOLL the kernel looks by itself
  iouring_enter,  // what failed through the ring is not in the log
  kill,
  exit,        // exit, exit_group
  aio_submit,  // io_submit
  aio_events,  // io_getevents: what was submitted has ended, and may have failed
  // From here on only the summary asks.
  read,        // result is bytes that came
  wait,        // poll, select, epoll_wait: 0 is that time ran out
  reap,        // wait4, waitid: how a child ended
  watch,       // epoll_ctl
  getsockopt,  // SO_ERROR: how a connect() in progress ended
  getsockname,
};

// Calls that change nothing where they fail. close() frees its number all the same, and what was
// sent or connected to is known from a failure too.
constexpr bool only_by_success(Op op) noexcept {
  switch (op) {
    case Op::open:
    case Op::openat:
    case Op::creat:
    case Op::dup:
    case Op::fcntl:
    case Op::ioctl:
    case Op::mmap:
    case Op::munmap:
    case Op::chdir:
    case Op::unlink:
    case Op::unlinkat:
    case Op::readlink:
    case Op::rename:
    case Op::renameat:
      return true;
    default:
      return false;
  }
}

// Calls of which most change nothing, as their arguments tell.
constexpr bool by_arguments(Op op) noexcept {
  return op == Op::mmap || op == Op::fcntl || op == Op::ioctl || op == Op::getsockopt;
}

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

// The first bytes of two words, as many as the index says.
struct NameMask {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
};
inline constexpr std::array<NameMask, 17> kNameMasks = [] {
  std::array<NameMask, 17> masks{};
  constexpr std::uint64_t kAll = ~std::uint64_t{0};
  for (unsigned i = 1; i <= 16; ++i) {
    masks[i].low = i < 8 ? kAll >> (64 - 8 * i) : kAll;
    masks[i].high = i > 8 ? kAll >> (128 - 8 * i) : 0;
  }
  return masks;
}();

// The names, hashed by their first 16 bytes.
class CallTable {
 public:
  static const CallTable& get() noexcept;

  struct Found {
    std::uint16_t index = kUnknownCall;
    bool plain = false;  // only the summary has a use for it
  };
  // A call by its name. `name` need not be terminated, but 16 bytes from its start must be
  // readable.
  Found look_up(const char* name, std::size_t length) const noexcept {
    if (length == 0 || length > 31) return {};
    const Key key(name, length);
    for (std::size_t at = key.hash(length);; at = (at + 1) % kSlots) {
      const Slot& slot = slots_[at];
      if (slot.length == 0) return {};
      if (slot.low != key.low || slot.high != key.high || slot.length != length) continue;
      if (length <= 16 || calls_[slot.index].name == std::string_view(name, length)) {
        return {slot.index, slot.plain};
      }
    }
  }
  // Its index alone, or kUnknownCall.
  std::uint16_t find(const char* name, std::size_t length) const noexcept {
    return look_up(name, length).index;
  }

  const Call& at(std::uint16_t index) const noexcept { return calls_[index]; }
  std::size_t size() const noexcept { return calls_.size(); }

 private:
  struct Slot {
    std::uint64_t low = 0;
    std::uint64_t high = 0;
    std::uint16_t index = kUnknownCall;
    std::uint8_t length = 0;
    bool plain = false;
  };
  struct Key {
    std::uint64_t low;
    std::uint64_t high;
    Key(const char* name, std::size_t length) noexcept
        : low(word(name) & kNameMasks[length < 16 ? length : 16].low),
          high(word(name + 8) & kNameMasks[length < 16 ? length : 16].high) {}
    std::size_t hash(std::size_t length) const noexcept {
      const std::uint64_t mixed = low ^ (high * 0xff51afd7ed558ccdULL) ^ length;
      return (mixed * 0x9e3779b97f4a7c15ULL) >> 53;
    }
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
