// Bounded reads from byte ranges: the only place where parsers touch raw memory.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

namespace pm {

static_assert(std::endian::native == std::endian::little, "evidence is read as little endian");

using Bytes = std::span<const std::uint8_t>;

// The value at `offset`, or nothing if it does not lie wholly inside.
template <class T>
std::optional<T> load(Bytes bytes, std::uint64_t offset) noexcept {
  static_assert(std::is_trivially_copyable_v<T>);
  if (offset > bytes.size() || sizeof(T) > bytes.size() - offset) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

// As much of [offset, offset + length) as there is.
inline Bytes clip(Bytes bytes, std::uint64_t offset, std::uint64_t length) noexcept {
  if (offset >= bytes.size()) return {};
  const std::uint64_t rest = bytes.size() - offset;
  return bytes.subspan(offset, length < rest ? length : rest);
}

// The whole of [offset, offset + length), or nothing.
inline std::optional<Bytes> exact(Bytes bytes, std::uint64_t offset,
                                  std::uint64_t length) noexcept {
  if (offset > bytes.size() || length > bytes.size() - offset) return std::nullopt;
  return bytes.subspan(offset, length);
}

inline std::string_view as_text(Bytes bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The text from `offset` to the next NUL; without a NUL, all that is left.
inline std::string_view c_string(Bytes bytes, std::uint64_t offset) noexcept {
  const std::string_view rest = as_text(clip(bytes, offset, bytes.size()));
  return rest.substr(0, rest.find('\0'));
}

// Walks over bytes. A read that would leave the range gives 0, moves nothing and makes the cursor
// fail for good, so that a parser may read a whole record and ask once.
class Cursor {
 public:
  explicit Cursor(Bytes bytes, std::uint64_t offset = 0) noexcept
      : bytes_(bytes), offset_(offset), failed_(offset > bytes.size()) {}

  bool ok() const noexcept { return !failed_; }
  bool at_end() const noexcept { return failed_ || offset_ >= bytes_.size(); }
  std::uint64_t offset() const noexcept { return offset_; }
  std::uint64_t left() const noexcept { return failed_ ? 0 : bytes_.size() - offset_; }

  template <class T>
  T get() noexcept {
    const auto value = failed_ ? std::nullopt : load<T>(bytes_, offset_);
    if (!value) {
      failed_ = true;
      return T{};
    }
    offset_ += sizeof(T);
    return *value;
  }
  std::uint8_t u8() noexcept { return get<std::uint8_t>(); }
  std::uint16_t u16() noexcept { return get<std::uint16_t>(); }
  std::uint32_t u32() noexcept { return get<std::uint32_t>(); }
  std::uint64_t u64() noexcept { return get<std::uint64_t>(); }

  // LEB128 as in DWARF 5, section 7.6; more than 64 bits' worth of groups is a failure.
  std::uint64_t uleb() noexcept {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
      const std::uint8_t byte = u8();
      if (failed_) return 0;
      if (shift < 64) value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (!(byte & 0x80)) return value;
    }
    failed_ = true;
    return 0;
  }
  std::int64_t sleb() noexcept {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
      const std::uint8_t byte = u8();
      if (failed_) return 0;
      if (shift < 64) value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte & 0x80) continue;
      if (shift + 7 < 64 && (byte & 0x40)) value |= ~std::uint64_t{0} << (shift + 7);
      return static_cast<std::int64_t>(value);
    }
    failed_ = true;
    return 0;
  }

  Bytes take(std::uint64_t length) noexcept {
    const auto part = failed_ ? std::nullopt : exact(bytes_, offset_, length);
    if (!part) {
      failed_ = true;
      return {};
    }
    offset_ += length;
    return *part;
  }
  void skip(std::uint64_t length) noexcept { take(length); }

  // The text up to a NUL, which is skipped; fails where there is none.
  std::string_view c_string() noexcept {
    if (failed_) return {};
    const std::string_view rest = as_text(bytes_.subspan(offset_));
    const std::size_t end = rest.find('\0');
    if (end == std::string_view::npos) {
      failed_ = true;
      return {};
    }
    offset_ += end + 1;
    return rest.substr(0, end);
  }

 private:
  Bytes bytes_;
  std::uint64_t offset_;
  bool failed_;
};

}  // namespace pm
