// How the lines of a log begin: what was read of one line's leader holds for all that look like it.
#pragma once

#include "strace/line.h"

namespace pm::strace {

// The leader of one line, with its digits left open. Strace writes the same on every line but for
// the numbers, so that nearly all lines are known by one comparison. The numbers may be any: how
// many digits they have, and what is between them, decides how read_leader() takes a line apart.
class LeaderForm {
 public:
  // Takes over the form of a line, if it is short enough. 32 bytes of the line must be readable.
  void learn(const char* line, const Leader& leader) noexcept {
    const auto length = static_cast<std::size_t>(leader.body - line);
    if (length > kLongest) return;
    for (unsigned i = 0; i < kLongest; ++i) bytes_[i] = is_digit(line[i]) ? '0' : line[i];
    length_ = static_cast<unsigned>(length);
    all_ = static_cast<std::uint32_t>((std::uint64_t{1} << length) - 1);
    pid_at_ = 0;
    while (leader.bracketed && pid_at_ < length && !is_digit(line[pid_at_])) ++pid_at_;
    has_pid_ = leader.has_pid;
    bracketed_ = leader.bracketed;
    const char* at = line + pid_at_;
    std::uint32_t pid = 0;
    known_ = !has_pid_ || (read_short(at, pid) && pid == leader.pid);
    if (!known_) length_ = 0;
  }

  // Behind the leader of a line that looks like the one that was learned; null if it does not.
  // kPadding bytes from its start must be readable.
  const char* behind(const char* line) const noexcept {
    if (length_ == 0) return known_ && (is_lower(*line) || *line == '<') ? line : nullptr;
    return (likeness(line) & all_) == all_ ? line + length_ : nullptr;
  }

  std::uint32_t pid(const char* line) const noexcept {
    std::uint32_t value = 0;
    const char* at = line + pid_at_;
    if (has_pid_) read_short(at, value);
    return value;
  }
  bool has_pid() const noexcept { return has_pid_; }
  bool bracketed() const noexcept { return bracketed_; }

 private:
  static constexpr std::size_t kLongest = 32;

  // Bits of the bytes that are what they were, the first in the lowest.
  std::uint32_t likeness(const char* line) const noexcept {
#if defined(__SSE2__)
    const std::uint32_t same = likeness_of_16(line, 0);
    return length_ <= 16 ? same : same | (likeness_of_16(line, 16) << 16);
#else
    std::uint32_t same = 0;
    for (unsigned i = 0; i < kLongest; ++i) {
      same |= std::uint32_t{(is_digit(line[i]) ? '0' : line[i]) == bytes_[i]} << i;
    }
    return same;
#endif
  }

#if defined(__SSE2__)
  std::uint32_t likeness_of_16(const char* line, unsigned from) const noexcept {
    const __m128i zero = _mm_set1_epi8('0');
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(line + from));
    const __m128i value = _mm_sub_epi8(bytes, zero);
    const __m128i digit = _mm_cmpeq_epi8(_mm_min_epu8(value, _mm_set1_epi8(9)), value);
    const __m128i open = _mm_or_si128(_mm_and_si128(digit, zero), _mm_andnot_si128(digit, bytes));
    const __m128i learned = _mm_load_si128(reinterpret_cast<const __m128i*>(bytes_ + from));
    return static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(open, learned)));
  }
#endif

  alignas(16) char bytes_[kLongest] = {};
  std::uint32_t all_ = 0;  // bits of the bytes that must be the same
  unsigned length_ = 0;
  unsigned pid_at_ = 0;
  bool known_ = false;
  bool has_pid_ = false;
  bool bracketed_ = false;
};

}  // namespace pm::strace
