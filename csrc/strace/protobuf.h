// Writes protocol buffers by hand: the few wire types that a trace takes
// (protobuf.dev/programming-guides/encoding).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pm::strace {

class Proto {
 public:
  void number(std::uint32_t field, std::uint64_t value) {
    varint(std::uint64_t{field} << 3);
    varint(value);
  }
  // int32 and int64: a negative one takes ten bytes.
  void integer(std::uint32_t field, std::int64_t value) {
    number(field, static_cast<std::uint64_t>(value));
  }
  // Strings, bytes, and messages, which are bytes too.
  void bytes(std::uint32_t field, std::string_view value) {
    varint((std::uint64_t{field} << 3) | 2);
    varint(value.size());
    out_.append(value);
  }
  void message(std::uint32_t field, const Proto& inner) { bytes(field, inner.out_); }
  const std::string& data() const noexcept { return out_; }
  bool empty() const noexcept { return out_.empty(); }
  void clear() { out_.clear(); }

 private:
  void varint(std::uint64_t value) {
    while (value >= 0x80) {
      out_.push_back(static_cast<char>(value | 0x80));
      value >>= 7;
    }
    out_.push_back(static_cast<char>(value));
  }
  std::string out_;
};

}  // namespace pm::strace
