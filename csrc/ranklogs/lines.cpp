#include "ranklogs/lines.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/vector_bytes.h"

namespace pm::ranklogs {
namespace {

constexpr std::size_t kHole = 8;
constexpr std::size_t kWorthSeeking = std::size_t{64} << 10;

// The first zero, or the end.
const char* zero_in(const char* begin, const char* end) noexcept {
  if (begin == end) return end;
  const void* const found = std::memchr(begin, 0, static_cast<std::size_t>(end - begin));
  return found ? static_cast<const char*>(found) : end;
}

// The first byte from `at` that is a control character, as line ends are; npos where there is none.
std::size_t control_in(std::string_view all, std::size_t at) noexcept {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  constexpr std::size_t kStep = sizeof(Bytes);
  for (; all.size() - at >= kStep; at += kStep) {
    const Bytes bytes = load(all.data() + at);
    const Bytes found = Bytes(bytes < 0x20) | Bytes(bytes == 0x7f);
    if (!any(found)) continue;
    while (!is_control(all[at])) ++at;
    return at;
  }
  while (at < all.size() && !is_control(all[at])) ++at;
  return at < all.size() ? at : std::string_view::npos;
}

// How often the line that begins at `at` and ends at `end` stands there again right behind itself.
std::size_t copies_behind(std::string_view all, std::size_t at, std::size_t end) noexcept {
  constexpr std::size_t kStep = 4096;
  const std::size_t period = end + 1 - at;
  if (all.size() - at < 2 * period || all[end + period] != '\n') return 0;
  const char* const first = all.data() + at;
  if (std::memcmp(first, first + period, period) != 0) return 0;
  const std::size_t most = all.size() - at - period;
  std::size_t same = period;
  while (most - same >= kStep && std::memcmp(first + same, first + same + period, kStep) == 0) {
    same += kStep;
  }
  while (most - same >= period && std::memcmp(first + same, first + same + period, period) == 0) {
    same += period;
  }
  return same / period;
}

}  // namespace

Lines::Lines(const Pull& pull, std::size_t block_bytes, std::size_t sample_bytes,
             const PastHole& past_hole)
    : pull_(pull), block_bytes_(block_bytes), sample_bytes_(sample_bytes), past_hole_(past_hole) {
  buffer_.resize(std::max({block_bytes, sample_bytes, std::size_t{16}}));
}

std::string_view Lines::sample() {
  fill(sample_bytes_);
  return {buffer_.data(), std::min(size_, sample_bytes_)};
}

void Lines::each(const TakeLines& take) {
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
    bytes_ += got;
    const std::size_t kept = without_zeros(buffer_.data() + size_, got);
    size_ += kept;
    if (got >= kWorthSeeking && kept == 0) pass_holes();
  }
}

void Lines::pass_holes() {
  if (!past_hole_) return;
  const std::uint64_t passed = past_hole_();
  bytes_ += passed;
  zeros_ += passed;
}

// Moves text together over zeros; returns how much of it there is. What stands behind many of them
// was no part of what stands before, as behind a carriage return. Single ones may be in any text:
// strings of C, UTF-16.
std::size_t Lines::without_zeros(char* begin, std::size_t size) {
  const char* const end = begin + size;
  const char* at = zero_in(begin, end);
  if (at == end) {
    run_ = size ? 0 : run_;
    return size;
  }
  char* to = begin + (at - begin);
  while (at < end) {
    const char* const text = std::find_if(at, end, [](char c) { return c != 0; });
    run_ += static_cast<std::size_t>(text - at);
    zeros_ += static_cast<std::uint64_t>(text - at);
    const bool inside = to > buffer_.data() && to[-1] != '\n' && to[-1] != '\r';
    if (run_ >= kHole && inside) *to++ = '\r';  // in the place of a zero
    if (text == end) break;
    run_ = 0;
    at = zero_in(text, end);
    std::memmove(to, text, static_cast<std::size_t>(at - text));
    to += at - text;
  }
  return static_cast<std::size_t>(to - begin);
}

// Hands out the lines of the buffer; returns how many bytes of it are done with.
std::size_t Lines::hand_out(const TakeLines& take) {
  std::array<Line, kMostAtOnce> lines;
  std::size_t count = 0;
  const auto add = [&](const Line& line) {
    lines[count++] = line;
    if (count < lines.size()) return;
    take(lines);
    count = 0;
  };
  std::size_t at = 0;
  const std::string_view all(buffer_.data(), size_);
  while (at < size_) {
    std::size_t end = control_in(all, at);
    const bool clean = end != std::string_view::npos && all[end] == '\n';
    if (!clean) end = all.find('\n', end);
    if (end == std::string_view::npos) break;
    if (skipping_) {
      skipping_ = false;
      at = end + 1;
      continue;
    }
    const std::size_t copies = copies_behind(all, at, end);
    add({all.substr(at, end - at), copies + 1, clean});
    at += (copies + 1) * (end + 1 - at);
  }
  const std::size_t left = size_ - at;
  const bool too_long = left >= std::min(kLongestLine, buffer_.size());
  const bool whole = left && (ended_ || too_long);
  if (whole && !skipping_) {
    add({all.substr(at, ended_ ? std::string_view::npos : kLongestLine)});
    if (!ended_) ++cut_;
  }
  take(std::span(lines).first(count));
  if (!whole) return at;
  skipping_ = !ended_;
  return size_;
}

}  // namespace pm::ranklogs
