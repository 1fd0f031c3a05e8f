#include "base/drawer.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace pm {
namespace {

constexpr std::size_t kMost = 8;
using Control = std::array<char, CMSG_SPACE(kMost * sizeof(int))>;

}  // namespace

int put_away(const std::vector<int>& descriptors) noexcept {
  if (descriptors.empty() || descriptors.size() > kMost) {
    errno = EINVAL;
    return -1;
  }
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return -1;
  const std::size_t size = descriptors.size() * sizeof(int);
  alignas(cmsghdr) Control control{};
  char byte = 0;
  iovec text{&byte, 1};
  msghdr message{};
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = CMSG_SPACE(size);
  cmsghdr* const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(size);
  std::memcpy(CMSG_DATA(head), descriptors.data(), size);
  const bool sent = sendmsg(ends[0], &message, MSG_NOSIGNAL) == 1;
  const int error = errno;
  close(ends[0]);
  if (sent) return ends[1];
  close(ends[1]);
  errno = error;
  return -1;
}

std::vector<int> take_out(int drawer) {
  alignas(cmsghdr) Control control{};
  char byte = 0;
  iovec text{&byte, 1};
  msghdr message{};
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  std::vector<int> found;
  if (recvmsg(drawer, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != 1) return found;
  const cmsghdr* const head = CMSG_FIRSTHDR(&message);
  if (!head || head->cmsg_type != SCM_RIGHTS) return found;
  found.resize((head->cmsg_len - CMSG_LEN(0)) / sizeof(int));
  std::memcpy(found.data(), CMSG_DATA(head), found.size() * sizeof(int));
  return found;
}

}  // namespace pm
