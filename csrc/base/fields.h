// A structure says once what its fields are called outside: with the names of the facts in Python.
//
//   template <> inline constexpr auto kFields<Holder> =
//       std::tuple(field("pid", &Holder::pid), field("fd", &Holder::fd));
#pragma once

#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>

namespace pm {

// How a value is told.
enum class Told {
  plain,
  or_none,          // nothing instead of 0, an empty text or list, a negative number
  seconds,          // of nanoseconds
  seconds_or_none,  // the same, nothing instead of 0
  file,             // the name of a file instead of its number
  inside,           // the fields of a structure, among those of the one that holds it
  values,           // the values of its fields alone, in their order: of what there are many
};

// `get` is a member, or a function of the structure.
template <Told told, class Get>
struct Field {
  static constexpr Told kTold = told;
  std::string_view name;
  Get get;
};

template <Told told = Told::plain, class Get>
constexpr Field<told, Get> field(std::string_view name, Get get) {
  return {name, get};
}

template <class T>
inline constexpr auto kFields = nullptr;

template <class T>
concept Described = !std::is_same_v<decltype(kFields<T>), const std::nullptr_t>;

}  // namespace pm
