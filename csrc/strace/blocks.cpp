#include "strace/blocks.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace pm::strace {
namespace {

// Whether something may have been glued into a line, so that the next one belongs to it.
bool looks_open(const char* begin, const char* end) noexcept {
  if (begin == end) return false;
  const char last = end[-1];
  return !(is_digit(last) || last == ')' || last == '>' || last == '?' || last == '+' ||
           last == '-' || last == '|' || last == ']' || last == '\r') ||
         ends(begin, end, "attached") || ends(begin, end, "detached");
}

}  // namespace

Pull pull_from(int descriptor) {
  return [descriptor](char* to, std::size_t size) -> std::size_t {
    for (;;) {
      const ssize_t got = ::read(descriptor, to, size);
      if (got >= 0) return static_cast<std::size_t>(got);
      if (errno != EINTR) throw EvidenceError(std::string("cannot be read: ") + strerror(errno));
    }
  };
}

BlockReader::BlockReader(Pull pull, std::size_t block_bytes)
    : pull_(std::move(pull)), block_bytes_(block_bytes) {}

void BlockReader::reserve(Block& block, std::size_t size) const {
  if (block.capacity >= size) return;
  auto larger = std::make_unique_for_overwrite<char[]>(size + kPadding);
  if (block.size) std::memcpy(larger.get(), block.data.get(), block.size);
  block.data = std::move(larger);
  block.capacity = size;
}

bool BlockReader::next(Block& block) {
  block.size = 0;
  if (block.capacity > 4 * block_bytes_) {  // a long line went through it
    block.data.reset();
    block.capacity = 0;
  }
  // Never more, though the block may have room from before: where blocks end must not depend on
  // which thread had which.
  std::size_t room = std::max(block_bytes_, carry_.size());
  reserve(block, room);
  if (!carry_.empty()) {
    std::memcpy(block.data.get(), carry_.data(), carry_.size());
    block.size = carry_.size();
    carry_.clear();
  }
  std::size_t searched = 0;
  for (;;) {
    while (!ended_ && block.size < room) {
      const std::size_t got = pull_(block.data.get() + block.size, room - block.size);
      ended_ = got == 0;
      bytes_ += got;
      block.size += got;
    }
    if (ended_) break;
    const char* const data = block.data.get();
    const void* const found = memrchr(data + searched, '\n', block.size - searched);
    if (found) {
      std::size_t end = static_cast<std::size_t>(static_cast<const char*>(found) - data) + 1;
      const void* const before = end > 1 ? memrchr(data, '\n', end - 1) : nullptr;
      if (before) {
        const char* const last = static_cast<const char*>(before) + 1;
        if (data + end - last < 65536 && looks_open(last, data + end - 1)) {
          end = static_cast<std::size_t>(last - data);
        }
      }
      carry_.assign(data + end, data + block.size);
      block.size = end;
      break;
    }
    searched = block.size;
    if (block.size >= kLongestLine) {
      ++cut_lines_;
      skip_rest_of_line();
      reserve(block, block.size + 1);
      block.data[block.size++] = '\n';
      break;
    }
    room = std::min(2 * room, kLongestLine);
    reserve(block, room);
  }
  if (block.size == 0) return false;
  std::memset(block.data.get() + block.size, 0, kPadding);
  block.index = next_++;
  return true;
}

bool BlockReader::skip_rest_of_line() {
  std::vector<char> piece(block_bytes_);
  while (!ended_) {
    const std::size_t got = pull_(piece.data(), piece.size());
    ended_ = got == 0;
    bytes_ += got;
    const char* const end = piece.data() + got;
    const char* const newline = find(piece.data(), end, '\n');
    if (newline < end) {
      carry_.assign(newline + 1, end);
      return true;
    }
  }
  return false;
}

}  // namespace pm::strace
