#include "bind/known_scans.h"

#include <cstring>

#include "bind/scan_tensors.h"

namespace py = pybind11;

namespace pm::bind {
namespace {

PyObject* version_name = nullptr;

std::uint64_t elements_of(const scan::Array& array) {
  std::uint64_t count = 1;
  for (const std::int64_t size : array.shape) count *= static_cast<std::uint64_t>(size);
  return count;
}

bool same_layout(const Known& known, const scan::Array& array) {
  if (known.format != array.format || known.complex != array.complex) return false;
  const bool in_order = array.strides.empty();
  if (known.in_order != in_order) return false;
  if (in_order) return known.elements == elements_of(array);
  const std::size_t rank = array.shape.size();
  return known.rank == rank &&
         std::memcmp(known.layout.data(), array.shape.data(), rank * sizeof(std::int64_t)) == 0 &&
         std::memcmp(known.layout.data() + rank, array.strides.data(),
                     rank * sizeof(std::int64_t)) == 0;
}

// What a weak reference refers to, a new reference; null, and no error, if it is gone.
PyObject* referred(PyObject* weak) {
#if PY_VERSION_HEX >= 0x030D0000
  PyObject* object = nullptr;
  if (PyWeakref_GetRef(weak, &object) < 0) PyErr_Clear();
  return object;
#else
  PyObject* const object = PyWeakref_GetObject(weak);
  if (object == nullptr) PyErr_Clear();
  return object == nullptr || object == Py_None ? nullptr : Py_NewRef(object);
#endif
}

}  // namespace

void drop(Known& known) {
  known.address = nullptr;
  Py_CLEAR(known.tensor);
  Py_CLEAR(known.result);
}

std::size_t slot_of(const void* address) {
  const auto bits = reinterpret_cast<std::uintptr_t>(address);
  return static_cast<std::size_t>((bits >> 4) * 0x9E3779B97F4A7C15ULL >> 54);
}

long long version_of(PyObject* tensor) {
  PyObject* const value = PyObject_GetAttr(tensor, version_name);
  if (value == nullptr) {
    PyErr_Clear();
    return -1;
  }
  const long long version = PyLong_AsLongLong(value);
  Py_DECREF(value);
  if (version == -1) PyErr_Clear();
  return version;
}

bool still_holds(const Known& known, PyObject* tensor, const scan::Array& array,
                 long long version) {
  if (known.address != array.data || known.version != version || !same_layout(known, array)) {
    return false;
  }
  const py::object owner = py::reinterpret_steal<py::object>(referred(known.tensor));
  PyObject* const seen = owner.ptr();
  if (seen == tensor) return true;
  if (seen == nullptr) return false;
  // Another view: alive, the one that was scanned keeps the storage from being used anew, unless it
  // was given other memory itself.
  Held held;
  return take_trusted(seen, held) == Taken::yes && held.array.data == array.data &&
         version_of(seen) == version;
}

void remember(Known& known, PyObject* tensor, const scan::Array& array, long long version,
              PyObject* result) {
  drop(known);
  const std::size_t rank = array.shape.size();
  if (!array.strides.empty() && rank > kMostRank) return;
  PyObject* const reference = PyWeakref_NewRef(tensor, nullptr);
  if (reference == nullptr) {
    PyErr_Clear();
    return;
  }
  known = {.address = array.data,
           .tensor = reference,
           .result = Py_NewRef(result),
           .version = version,
           .elements = elements_of(array),
           .format = array.format,
           .complex = array.complex,
           .in_order = array.strides.empty(),
           .rank = rank};
  if (known.in_order) return;
  std::memcpy(known.layout.data(), array.shape.data(), rank * sizeof(std::int64_t));
  std::memcpy(known.layout.data() + rank, array.strides.data(), rank * sizeof(std::int64_t));
}

bool init_known_scans() {
  version_name = PyUnicode_InternFromString("_version");
  return version_name != nullptr;
}

}  // namespace pm::bind
