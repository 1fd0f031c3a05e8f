#include "elfcore/thrown_value.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "elfcore/python_error.h"
#include "elfcore/what_evaluator.h"

namespace pm::elfcore {
namespace {

constexpr std::size_t kMaxThrownText = 1 << 16;

enum class Message {
  words,    // always the same ones
  pointer,  // a char* at `offset`, also as the first member of a std::string of either ABI
};

// One implementation of what(), where its text comes from. libstdc++: include/std/stdexcept,
// src/c++11/functexcept.cc, libsupc++; c10: c10/util/Exception.h (`msg_` follows the vtable; the
// context and the backtrace that its what() adds are left out).
struct Known {
  std::string_view type;
  std::string_view method;
  Message message;
  std::string_view words;
};
constexpr std::array kKnown{
    Known{"St13runtime_error", "_ZNKSt13runtime_error4whatEv", Message::pointer, {}},
    Known{"St11logic_error", "_ZNKSt11logic_error4whatEv", Message::pointer, {}},
    Known{"N3c105ErrorE", "_ZNK3c105Error4whatEv", Message::pointer, {}},
    Known{"St9bad_alloc", "_ZNKSt9bad_alloc4whatEv", Message::words, "std::bad_alloc"},
    Known{"St20bad_array_new_length", "_ZNKSt20bad_array_new_length4whatEv", Message::words,
          "std::bad_array_new_length"},
    Known{"St8bad_cast", "_ZNKSt8bad_cast4whatEv", Message::words, "std::bad_cast"},
    Known{"St10bad_typeid", "_ZNKSt10bad_typeid4whatEv", Message::words, "std::bad_typeid"},
    Known{"St13bad_exception", "_ZNKSt13bad_exception4whatEv", Message::words,
          "std::bad_exception"},
    Known{"St17bad_function_call", "_ZNKSt17bad_function_call4whatEv", Message::words,
          "bad_function_call"},
    Known{"St12bad_weak_ptr", "_ZNKSt12bad_weak_ptr4whatEv", Message::words, "bad_weak_ptr"},
    // Inline in their headers: no symbol tells the method, the exact type must do.
    Known{"St19bad_optional_access", {}, Message::words, "bad optional access"},
    Known{"St12bad_any_cast", {}, Message::words, "bad any_cast"},
    Known{"St18bad_variant_access", {}, Message::pointer, {}},
    Known{"St9exception", "_ZNKSt9exception4whatEv", Message::words, "std::exception"},
};

std::optional<std::string> text_at(const Memory& memory, std::uint64_t pointer) {
  if (pointer < 65536) return std::nullopt;
  return memory.text(pointer, kMaxThrownText);
}

std::optional<std::string> message_of(const Memory& memory, const Known& known,
                                      std::uint64_t part) {
  if (known.message == Message::words) return std::string(known.words);
  const auto pointer = memory.word(part + 8);
  return pointer ? text_at(memory, *pointer) : std::nullopt;
}

// std::filesystem::filesystem_error: what() is the third member of the implementation that a
// shared_ptr behind std::system_error (32 bytes) points to, after two paths of 40 bytes.
std::optional<std::string> filesystem_message(const Memory& memory, std::uint64_t object) {
  const auto details = memory.word(object + 32);
  const auto text = details ? memory.word(*details + 80) : std::nullopt;
  auto message = text ? text_at(memory, *text) : std::nullopt;
  if (!message || !message->starts_with("filesystem error")) return std::nullopt;
  return message;
}

template <class T>
std::optional<std::string> number(const Memory& memory, std::uint64_t object) {
  const auto value = memory.get<T>(object);
  if (!value) return std::nullopt;
  if constexpr (std::is_floating_point_v<T>) {
    char text[40];
    std::snprintf(text, sizeof text, "%.17g", static_cast<double>(*value));
    return text;
  } else {
    return std::to_string(*value);
  }
}

std::optional<std::string> fundamental(const Memory& memory, char code, std::uint64_t object) {
  switch (code) {
    case 'b':
      return number<std::uint8_t>(memory, object).value_or("0") == "0" ? "false" : "true";
    case 'a':
    case 'c':
      return number<std::int8_t>(memory, object);
    case 'h':
      return number<std::uint8_t>(memory, object);
    case 's':
      return number<std::int16_t>(memory, object);
    case 't':
      return number<std::uint16_t>(memory, object);
    case 'i':
      return number<std::int32_t>(memory, object);
    case 'j':
      return number<std::uint32_t>(memory, object);
    case 'l':
    case 'x':
      return number<std::int64_t>(memory, object);
    case 'm':
    case 'y':
      return number<std::uint64_t>(memory, object);
    case 'f':
      return number<float>(memory, object);
    case 'd':
      return number<double>(memory, object);
    default:
      return std::nullopt;
  }
}

// Whether the what() of this part of the object is the one of the class that we know. Its slot is
// the third of the vtable, behind two destructors.
bool uses(const Memory& memory, const TypeReader& types, const Known& known, std::uint64_t part) {
  const auto table = memory.word(part);
  const auto method = table ? memory.word(*table + 16) : std::nullopt;
  return method && !known.method.empty() && types.is_function(*method, known.method);
}

// A what() of the class's own, where its code can be followed.
std::optional<std::string> followed_message(const Memory& memory,
                                            const std::vector<BaseClass>& classes) {
  for (const BaseClass& part : classes) {
    if (part.name != "St9exception") continue;
    const auto table = memory.word(part.address);
    const auto method = table ? memory.word(*table + 16) : std::nullopt;
    const auto text = method ? follow_method(memory, *method, part.address) : std::nullopt;
    return text ? text_at(memory, *text) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<std::string> exception_message(const Memory& memory, const TypeReader& types,
                                             const std::vector<BaseClass>& classes) {
  for (const BaseClass& part : classes) {
    for (const Known& known : kKnown) {
      if (uses(memory, types, known, part.address)) {
        return message_of(memory, known, part.address);
      }
    }
  }
  // Linked statically and stripped: the exact type tells as much.
  for (const Known& known : kKnown) {
    if (classes.front().name == known.type) {
      return message_of(memory, known, classes.front().address);
    }
  }
  const std::string& own = classes.front().name;
  if (own == "NSt10filesystem7__cxx1116filesystem_errorE") {
    return filesystem_message(memory, classes.front().address);
  }
  if (auto said = python_error_message(memory, own, classes.front().address)) return said;
  constexpr std::array<std::string_view, 10> kPlain{
      "St12length_error",    "St12out_of_range", "St16invalid_argument",
      "St12domain_error",    "St11range_error",  "St14overflow_error",
      "St15underflow_error", "St12system_error", "NSt8ios_base7failureB5cxx11E",
      "St13__ios_failure"};
  if (std::find(kPlain.begin(), kPlain.end(), own) != kPlain.end()) {
    return message_of(memory, kKnown[0], classes.front().address);
  }
  return followed_message(memory, classes);
}

// Of a type whose tables are not at hand: std::logic_error, std::runtime_error and what derives
// from them keep their message, behind the table of functions, in a string that is shared
// (bits/cow_string.h): length, capacity and the number of owners stand before the characters.
std::optional<std::string> shared_string(const Memory& memory, std::uint64_t object) {
  const auto pointer = memory.word(object + 8);
  if (!pointer) return std::nullopt;
  const auto length = memory.word(*pointer - 24), capacity = memory.word(*pointer - 16);
  const auto owners = memory.get<std::int32_t>(*pointer - 8);
  if (!length || !capacity || !owners || *length == 0 || *length > *capacity || *owners < 0) {
    return std::nullopt;
  }
  auto text = text_at(memory, *pointer);
  return text && text->size() == *length ? text : std::nullopt;
}

// std::string of libstdc++ knows its length, and where it is short, it points into itself. Long
// ones of libc++ have their capacity first, whose lowest bit tells them from short ones.
std::optional<std::string> plain_string(const Memory& memory, std::uint64_t object) {
  constexpr std::uint64_t kRoom = 16;
  const auto pointer = memory.word(object), length = memory.word(object + 8);
  const auto capacity = memory.word(object + 16);
  if (!pointer || !length || !capacity || *length == 0) return std::nullopt;
  if ((*pointer & 1) && *length < *pointer) {
    auto text = text_at(memory, *capacity);
    return text && text->size() == *length ? text : std::nullopt;
  }
  const bool is_short = *pointer == object + 16;
  if (is_short ? *length >= kRoom : *length > *capacity || *capacity < kRoom) return std::nullopt;
  auto text = text_at(memory, *pointer);
  return text && text->size() == *length ? text : std::nullopt;
}

}  // namespace

std::optional<std::string> read_what(const Memory& memory, const TypeReader& types,
                                     std::uint64_t type, std::uint64_t object,
                                     const std::vector<BaseClass>& classes) {
  if (classes.empty()) {
    auto text = shared_string(memory, object);
    if (!text) text = plain_string(memory, object);
    if (!text) text = python_error_message(memory, {}, object);
    return text ? text : plain_string(memory, object + 8);  // behind the table of functions
  }
  const std::string& own = classes.front().name;
  if (own.size() == 1) return fundamental(memory, own[0], object);
  if (own == "PKc" || own == "Pc" || own == "Ss" ||
      own == "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE") {
    const auto pointer = memory.word(object);
    return pointer ? text_at(memory, *pointer) : std::nullopt;
  }
  const TypeKind kind = types.kind(type);
  if (kind == TypeKind::enumeration) {
    // Its size is not in the type information; int is what nearly all enumerations have.
    auto value = number<std::int32_t>(memory, object);
    if (value) *value += " (read as a 4-byte integer)";
    return value;
  }
  if (kind == TypeKind::plain_class) return exception_message(memory, types, classes);
  return std::nullopt;
}

}  // namespace pm::elfcore
