// Text of a log: short searches, numbers, words.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace pm::strace {

// Bytes behind a block of text that may be read, though they mean nothing.
constexpr std::size_t kPadding = 64;

inline bool is_digit(char c) noexcept { return static_cast<unsigned char>(c - '0') < 10; }
inline bool is_lower(char c) noexcept { return static_cast<unsigned char>(c - 'a') < 26; }
inline bool is_upper(char c) noexcept { return static_cast<unsigned char>(c - 'A') < 26; }
inline bool is_word(char c) noexcept {
  return is_lower(c) || is_upper(c) || is_digit(c) || c == '_';
}
// Of a program's name or path, as a user types it.
inline bool is_name_of_program(char c) noexcept {
  return is_word(c) || c == '/' || c == '.' || c == '-' || c == '+';
}

// Distance of the first `c` within 32 bytes, which must be readable; 32 if there is none.
inline unsigned find_in_32(const char* at, char c) noexcept {
#if defined(__SSE2__)
  const __m128i wanted = _mm_set1_epi8(c);
  const auto half = [&](const char* from) {
    return static_cast<unsigned>(_mm_movemask_epi8(
        _mm_cmpeq_epi8(wanted, _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)))));
  };
  const unsigned mask = half(at) | (half(at + 16) << 16);
  return mask ? static_cast<unsigned>(std::countr_zero(mask)) : 32;
#else
  for (unsigned i = 0; i < 32; ++i) {
    if (at[i] == c) return i;
  }
  return 32;
#endif
}

// The same within 16 bytes; 16 if there is none.
inline unsigned find_in_16(const char* at, char c) noexcept {
#if defined(__SSE2__)
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
  const int mask = _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_set1_epi8(c), bytes));
  return static_cast<unsigned>(std::countr_zero(static_cast<unsigned>(mask) | 0x10000U));
#else
  for (unsigned i = 0; i < 16; ++i) {
    if (at[i] == c) return i;
  }
  return 16;
#endif
}

// Bits of the 64 bytes from `at` on that equal `c`, the first in the lowest. They must be readable.
inline std::uint64_t mask_of_64(const char* at, char c) noexcept {
  std::uint64_t mask = 0;
#if defined(__SSE2__)
  const __m128i wanted = _mm_set1_epi8(c);
  for (unsigned i = 0; i < 64; i += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at + i));
    const auto part = static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(wanted, bytes)));
    mask |= std::uint64_t{part} << i;
  }
#else
  for (unsigned i = 0; i < 64; ++i) mask |= std::uint64_t{at[i] == c} << i;
#endif
  return mask;
}

// From 1 to 7 digits as a number, all at once; moves `at` behind them. 8 bytes must be readable.
// False, and nothing moves, where there is no digit or there are more.
[[gnu::always_inline]] inline bool read_short(const char*& at, std::uint32_t& value) noexcept {
  std::uint64_t word;
  std::memcpy(&word, at, sizeof word);
  word ^= 0x3030303030303030ULL;  // digits are 0 to 9 now
  const std::uint64_t others = ((word + 0x7676767676767676ULL) | word) & 0x8080808080808080ULL;
  if (others == 0) return false;
  const auto bits = static_cast<unsigned>(std::countr_zero(others)) & ~7U;
  if (bits == 0) return false;
  at += bits / 8;
  word <<= 64 - bits;  // the first byte is the lowest: zeros in front
  word = (word * 10 + (word >> 8)) & 0x00ff00ff00ff00ffULL;
  word = (word * 100 + (word >> 16)) & 0x0000ffff0000ffffULL;
  value = static_cast<std::uint32_t>(word * 10'000 + (word >> 32));
  return true;
}

inline bool starts(const char* at, const char* end, std::string_view word) noexcept {
  return static_cast<std::size_t>(end - at) >= word.size() &&
         std::memcmp(at, word.data(), word.size()) == 0;
}

inline bool ends(const char* begin, const char* end, std::string_view word) noexcept {
  return static_cast<std::size_t>(end - begin) >= word.size() &&
         std::memcmp(end - word.size(), word.data(), word.size()) == 0;
}

inline const char* find(const char* at, const char* end, char c) noexcept {
  const void* const found = std::memchr(at, c, static_cast<std::size_t>(end - at));
  return found ? static_cast<const char*>(found) : end;
}

inline bool contains(std::string_view text, std::string_view word) noexcept {
  // Not memmem(): glibc's fills a table of 256 bytes first, more than most of these texts have.
  return text.find(word) != std::string_view::npos;
}

// The text between two places; nothing where the second is not behind the first, as a cut line has
// it.
inline std::string_view view(const char* begin, const char* end) noexcept {
  return end > begin ? std::string_view(begin, static_cast<std::size_t>(end - begin))
                     : std::string_view(begin, 0);
}

// A decimal, 0x or 0 (octal) number with an optional sign; moves `at` behind it. Without a digit it
// gives 0 and does not move. More than 64 bits wrap.
std::int64_t read_number(const char*& at, const char* end) noexcept;

// The number at the start of a word; 0 where there is none.
inline std::int64_t number_in(std::string_view word) noexcept {
  const char* at = word.data();
  return word.empty() ? 0 : read_number(at, at + word.size());
}

// Digits only, from 1 to 19 of them.
bool read_digits(const char*& at, const char* end, std::uint64_t& value) noexcept;

// A copy without ANSI sequences (ESC [ … letter), as `--color` writes them.
void strip_colors(std::string_view line, std::string& out);

}  // namespace pm::strace
