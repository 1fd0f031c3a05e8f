// Described structures (base/fields.h) to dicts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "bind/values.h"

namespace pm::bind {

// Of files, by their numbers; a number that has none stands for itself.
using Names = std::vector<pybind11::object>;

template <class T>
pybind11::object value_of(const T& value, const Names& files);

template <class T>
pybind11::dict row_of(const T& one, const Names& files = {});

template <class T>
pybind11::object tuple_of(const T& value, const Names& files);

// Sequences become tuples, as facts have them.
template <class Range>
pybind11::tuple values_of(const Range& range, const Names& files) {
  pybind11::tuple values(range.size());
  std::size_t i = 0;
  for (const auto& one : range) values[i++] = value_of(one, files);
  return values;
}

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
struct IsOptional<std::unique_ptr<T>> : std::true_type {};

template <class T>
concept Pair = requires(const T& one) {
  one.first;
  one.second;
};

template <class T>
pybind11::object value_of(const T& value, const Names& files) {
  if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    return text(value);
  } else if constexpr (std::is_same_v<T, std::vector<std::uint8_t>>) {
    return raw(value);
  } else if constexpr (std::is_same_v<T, bool>) {
    return pybind11::bool_(value);
  } else if constexpr (std::is_enum_v<T>) {
    return pybind11::str(word_of(value));
  } else if constexpr (std::is_integral_v<T>) {
    return pybind11::int_(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return pybind11::float_(value);
  } else if constexpr (IsOptional<T>::value) {
    return value ? value_of(*value, files) : pybind11::object(pybind11::none());
  } else if constexpr (Described<T>) {
    return row_of(value, files);
  } else if constexpr (requires { value.get(); }) {  // shared by many
    return value_of(value.get(), files);
  } else if constexpr (Pair<T>) {
    return pybind11::make_tuple(value_of(value.first, files), value_of(value.second, files));
  } else {
    return values_of(value, files);
  }
}

template <class T>
bool is_nothing(const T& value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return std::is_signed_v<T> ? value < T{} : value == T{};
  } else {
    return value.empty();
  }
}

// Calls `use` with the name and value of each field.
template <class T, class Use>
void each_field(const T& one, const Names& files, const Use& use) {
  const auto tell = [&](const auto& field) {
    const auto& value = std::invoke(field.get, one);
    constexpr Told told = std::decay_t<decltype(field)>::kTold;
    if constexpr (told == Told::or_none || told == Told::seconds_or_none) {
      if (is_nothing(value)) return use(field.name, pybind11::none());
    }
    if constexpr (told == Told::inside) {
      each_field(value, files, use);
    } else if constexpr (told == Told::file) {
      use(field.name, value < files.size() ? files[value] : pybind11::int_(value));
    } else if constexpr (told == Told::values) {
      use(field.name, tuple_of(value, files));
    } else if constexpr (told == Told::seconds || told == Told::seconds_or_none) {
      use(field.name, pybind11::float_(static_cast<double>(value) / 1e9));
    } else {
      use(field.name, value_of(value, files));
    }
  };
  std::apply([&](const auto&... fields) { (tell(fields), ...); }, kFields<T>);
}

template <class T>
pybind11::dict row_of(const T& one, const Names& files) {
  pybind11::dict row;
  each_field(one, files, [&](std::string_view name, const pybind11::object& value) {
    // One object for a key, however many rows there are.
    PyObject* key = PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size()));
    if (!key) throw pybind11::error_already_set();
    PyUnicode_InternInPlace(&key);
    row[pybind11::reinterpret_steal<pybind11::str>(key)] = value;
  });
  return row;
}

// The values alone, behind what stands in front of them.
template <class T, class... First>
pybind11::tuple tuple_behind(const T& one, const Names& files, const First&... first) {
  constexpr std::size_t kFirst = sizeof...(First);
  pybind11::tuple row(std::tuple_size_v<std::remove_const_t<decltype(kFields<T>)>> + kFirst);
  std::size_t i = 0;
  ((row[i++] = value_of(first, files)), ...);
  each_field(one, files,
             [&](std::string_view, const pybind11::object& value) { row[i++] = value; });
  return row;
}

// The values alone, of a structure, of one that may be missing, or of each of many.
template <class T>
pybind11::object tuple_of(const T& value, const Names& files) {
  if constexpr (IsOptional<T>::value) {
    return value ? tuple_of(*value, files) : pybind11::object(pybind11::none());
  } else if constexpr (Described<T>) {
    return tuple_behind(value, files);
  } else {
    pybind11::tuple values(value.size());
    std::size_t i = 0;
    for (const auto& one : value) values[i++] = tuple_of(one, files);
    return values;
  }
}

template <class Range>
pybind11::list rows_of(const Range& range, const Names& files = {}) {
  pybind11::list rows;
  for (const auto& one : range) rows.append(row_of(one, files));
  return rows;
}

}  // namespace pm::bind
