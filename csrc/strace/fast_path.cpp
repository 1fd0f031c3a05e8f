// Calls that worked and may change what a task has open, with the end that nearly all of them have.
// What looks otherwise is read by the rules of the grammar.
#include "strace/extractor.h"

namespace pm::strace {
namespace {

// The value of 12 hexadecimal digits, as addresses of user space have mostly; false if one is none.
bool read_hex_12(const char* at, std::uint64_t& value) noexcept {
  value = 0;
  for (unsigned i = 0; i < 12; i += 6) {
    std::uint64_t word = 0;
    std::memcpy(&word, at + i, 6);
    constexpr std::uint64_t kOnes = 0x010101010101ULL;
    const std::uint64_t letters = (word >> 6) & kOnes;  // of a to f; digits have not this bit
    const std::uint64_t nibbles = (word & (0x0f * kOnes)) + 9 * letters;
    // What these nibbles are written as must be what is there, and none of them may be more than f.
    const std::uint64_t written = nibbles + 0x30 * kOnes + 0x27 * letters;
    if (written != word || (nibbles & (0xf0 * kOnes)) != 0) return false;
    std::uint64_t part = 0;
    for (unsigned digit = 0; digit < 6; ++digit)
      part = (part << 4) | ((nibbles >> (8 * digit)) & 15);
    value = (value << 24) | part;
  }
  return true;
}

// munmap(0x7fe70c6fa000, 8192)
bool read_plain_unmap(const char* p, const char* end, std::int64_t& start,
                      std::int64_t& length) noexcept {
  std::uint64_t address = 0;
  std::uint32_t size = 0;
  if (end - p < 20 || p[0] != '0' || p[1] != 'x' || !read_hex_12(p + 2, address)) return false;
  p += 14;
  if (p[0] != ',' || p[1] != ' ' || p[2] == '0') return false;
  p += 2;
  if (!read_short(p, size) || *p != ')') return false;
  start = static_cast<std::int64_t>(address);
  length = size;
  return true;
}

// What stands behind a call that worked: ` = 17`, or an address of 12 digits. False if it is
// anything else.
bool read_plain_result(const char* begin, const char* end, std::int64_t& value) noexcept {
  constexpr std::ptrdiff_t kAddress = 14;  // 0x7fe70c6fa000
  const char* p = end;
  while (is_digit(p[-1]) && end - p < 8) --p;
  const char* at = p;
  std::uint32_t number = 0;
  std::uint64_t address = 0;
  if (p < end && p[-1] == ' ') {
    if ((*p == '0' && end - p > 1) || !read_short(at, number) || at != end) return false;
    value = number;
  } else {
    if (end - begin < kAddress + 4) return false;
    p = end - kAddress;
    if (p[0] != '0' || p[1] != 'x' || !read_hex_12(p + 2, address)) return false;
    value = static_cast<std::int64_t>(address);
  }
  return p - begin >= 4 && p[-1] == ' ' && p[-2] == '=' && behind_bracket(begin, p - 2);
}

}  // namespace

bool Extractor::fast_path(const char* line, const char* end, std::uint32_t pid, std::uint16_t call,
                          Op op, const char* arguments) {
  if (op == Op::fork || op == Op::aio_events || end - arguments < 5) return false;
  const char* behind = end;  // of the result
  if (end[-1] == '>' && end - arguments > 16 && end[-8] == '.' && end[-10] == '<' &&
      end[-11] == ' ')
    behind -= 11;
  std::int64_t value = 0;
  if (!read_plain_result(arguments, behind, value)) return false;
  Event& event = out_.events.emplace_back();
  describe(event, line, end, pid, call, Shape::call, arguments, end);
  event.result.present = event.result.known = true;
  event.result.value = value;
  if (behind != end) event.result.seconds = view(end - 9, end - 1);
  const bool kept = (op == Op::munmap && read_plain_unmap(arguments, end, event.a, event.b)) ||
                    decode_args(event);
  if (!kept) out_.events.pop_back();
  return true;
}

}  // namespace pm::strace
