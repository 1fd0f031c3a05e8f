// A pickle of builtin containers, followed but never run: numbers, texts, lists, tuples, dicts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace pm::flightrec {

enum class Tag : std::uint8_t { kNone, kBool, kInt, kOther, kText, kList, kTuple, kDict };

// A value on the stack. `kOther` is what no dump that is looked at has: fractions, huge numbers,
// and whatever only running the pickle would make. What is shared in the pickle is shared here:
// containers by index, texts as views into the bytes. `number` is the integer, 0 or 1, or the
// container's index.
struct Value {
  Tag tag = Tag::kNone;
  std::uint32_t size = 0;  // of a text
  union {
    std::int64_t number = 0;
    const char* chars;
  };

  Value() noexcept = default;
  explicit Value(Tag of, std::int64_t value = 0) noexcept : tag(of), number(value) {}
  explicit Value(std::string_view text) noexcept
      : tag(Tag::kText), size(static_cast<std::uint32_t>(text.size())), chars(text.data()) {}

  std::string_view text() const noexcept { return {chars, size}; }
};

// What one pickle describes. Views lie in the bytes that were read.
class Document {
 public:
  Value root;

  // The items of a list, a tuple or a dict (key, value, key, value, …); none for all else.
  const std::vector<Value>& items(const Value& value) const noexcept;

  // The last value of a key of a dict; nullptr where it is no dict or has no such key.
  const Value* find(const Value& dict, std::string_view key) const noexcept;

  std::vector<std::vector<Value>> containers;
};

struct Limits {
  std::size_t opcodes = 40'000'000;
  std::size_t memory_bytes = std::size_t{1} << 30;
};

// Follows one pickle of protocol 2 to 5. Classes that it names are not looked up and calls are not
// made. Throws EvidenceError where it is cut or damaged or grows beyond the limits.
Document follow(Bytes bytes, const Limits& limits = {});

}  // namespace pm::flightrec
