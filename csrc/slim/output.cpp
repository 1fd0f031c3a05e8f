#include "slim/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "slim/pages.h"

namespace pm::slim {
namespace {

bool all_zero(Bytes bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t byte) { return byte == 0; });
}

}  // namespace

void Output::write(Bytes bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t count = pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw std::system_error(count < 0 ? errno : ENOSPC, std::generic_category());
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
}

void Output::write_sparse(Bytes bytes, std::uint64_t offset) {
  std::size_t from = 0;
  std::size_t at = 0;
  for (; at + kPage <= bytes.size(); at += kPage) {
    if (!all_zero(bytes.subspan(at, kPage))) continue;
    write(bytes.subspan(from, at - from), offset + from);
    from = at + kPage;
  }
  write(bytes.subspan(from), offset + from);
}

void Output::finish(std::uint64_t size) {
  if (ftruncate(fd_, static_cast<off_t>(size)) != 0) {
    throw std::system_error(errno, std::generic_category());
  }
}

void Output::punch(std::uint64_t offset, std::uint64_t size) noexcept {
  const int result = fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                               static_cast<off_t>(offset), static_cast<off_t>(size));
  static_cast<void>(result);
}

}  // namespace pm::slim
