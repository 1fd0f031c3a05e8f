// Plain values to Python objects.
#pragma once

#include <pybind11/pybind11.h>

#include <optional>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "dwarf/source_lines.h"

namespace pm::bind {

// Text from evidence, decoded as Python decodes file names: nothing is lost, and a path can be
// opened again.
inline pybind11::str text(std::string_view value) {
  PyObject* const decoded =
      PyUnicode_DecodeUTF8(value.data(), static_cast<Py_ssize_t>(value.size()), "surrogateescape");
  if (!decoded) throw pybind11::error_already_set();
  return pybind11::reinterpret_steal<pybind11::str>(decoded);
}

inline pybind11::object text_or_none(std::string_view value) {
  if (value.empty()) return pybind11::none();
  return text(value);
}

template <class T>
pybind11::object optional_text(const std::optional<T>& value) {
  if (!value) return pybind11::none();
  return text(*value);
}

template <class T>
pybind11::object optional_int(const std::optional<T>& value) {
  if (!value) return pybind11::none();
  return pybind11::int_(*value);
}

inline pybind11::bytes raw(Bytes value) {
  return pybind11::bytes(reinterpret_cast<const char*>(value.data()), value.size());
}

inline pybind11::list texts(const std::vector<std::string>& values) {
  pybind11::list result;
  for (const std::string& value : values) result.append(text(value));
  return result;
}

// (function or None, file or None, line) of each place, the innermost call first.
pybind11::list place_rows(const std::vector<dwarf::SourcePlace>& places);

pybind11::list problems(const Problems& problems);

}  // namespace pm::bind
