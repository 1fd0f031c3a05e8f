// What is known of each system call: what it does to descriptors, and which argument is to blame.
#pragma once

#include <cstdint>
#include <string_view>

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
  pair,       // pipe, pipe2, socketpair: two descriptors in an array
  socket,
  accept,
  create,     // eventfd, epoll_create, …: a descriptor without a name
  memfd,
  pidfd_open,
  pidfd_getfd,
  close_range,
  fork,       // fork, vfork, clone, clone3
  exec,
  chdir,
  fchdir,
  getcwd,
  readlink,
  unshare,
  self,       // getpid, gettid, set_tid_address: the result is the caller's pid
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
  read,       // result is bytes that came
  write,      // result is bytes that went, to the descriptor that the role names
  iouring,
  kill,
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

// Index of a call by its name, or kUnknownCall. `name` need not be terminated, but 16 bytes from its
// start must be readable.
constexpr std::uint16_t kUnknownCall = 0xffff;
std::uint16_t find_call(const char* name, std::size_t length) noexcept;

const Call& call_at(std::uint16_t index) noexcept;
std::size_t call_count() noexcept;

}  // namespace pm::strace
