#include "ranklogs/lines.h"

#include <algorithm>
#include <cstring>

namespace pm::ranklogs {

Lines::Lines(const Pull& pull, std::size_t block_bytes, std::size_t sample_bytes)
    : pull_(pull), block_bytes_(block_bytes), sample_bytes_(sample_bytes) {
  buffer_.resize(std::max({block_bytes, sample_bytes, std::size_t{16}}));
}

std::string_view Lines::sample() {
  fill(sample_bytes_);
  return {buffer_.data(), std::min(size_, sample_bytes_)};
}

void Lines::each(const TakeLine& take) {
  while (size_ > 0) {
    const std::size_t used = hand_out(take);
    std::memmove(buffer_.data(), buffer_.data() + used, size_ - used);
    size_ -= used;
    if (ended_ && size_ == 0) break;
    fill(std::max(block_bytes_, size_ + 1));
  }
}

void Lines::fill(std::size_t wanted) {
  wanted = std::min(std::max(wanted, size_ + 1), buffer_.size());
  while (!ended_ && size_ < wanted) {
    const std::size_t got = pull_(buffer_.data() + size_, wanted - size_);
    ended_ = got == 0;
    size_ += got;
    bytes_ += got;
  }
}

// Hands out the lines of the buffer; returns how many bytes of it are done with.
std::size_t Lines::hand_out(const TakeLine& take) {
  std::size_t at = 0;
  const std::string_view all(buffer_.data(), size_);
  while (at < size_) {
    const std::size_t end = all.find('\n', at);
    if (end == std::string_view::npos) break;
    if (skipping_) {
      skipping_ = false;
    } else {
      take(all.substr(at, end - at));
    }
    at = end + 1;
  }
  const std::size_t left = size_ - at;
  const bool too_long = left >= std::min(kLongestLine, buffer_.size());
  if (!left || (!ended_ && !too_long)) return at;
  if (!skipping_) {
    take(all.substr(at, ended_ ? std::string_view::npos : kLongestLine));
    if (!ended_) ++cut_;
  }
  skipping_ = !ended_;
  return size_;
}

}  // namespace pm::ranklogs
