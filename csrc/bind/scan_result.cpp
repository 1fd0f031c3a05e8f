#include "bind/scan_result.h"

#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <new>
#include <string>

namespace pm::bind {
namespace {

struct ScanResult {
  PyObject head;
  scan::Result values;
  PyObject* dtype;  // str
  PyObject*
      pending;  // what gives the values when they are first asked for; null once they are here
};

PyTypeObject* result_type = nullptr;

ScanResult* self_of(PyObject* self) { return reinterpret_cast<ScanResult*>(self); }

// Takes the values from a row, as `pending` gives it; false with a Python error if it is none.
bool fill(scan::Result& to, PyObject* row) {
  long long first = -1;
  unsigned long long counts[5] = {};
  const bool right =
      PyTuple_Check(row) && PyArg_ParseTuple(row, "KKKKKLdddd", &counts[0], &counts[1], &counts[2],
                                             &counts[3], &counts[4], &first, &to.abs_min,
                                             &to.abs_max, &to.abs_min_nonzero, &to.abs_max_finite);
  if (!right) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "a scan gave no tuple of its numbers");
    return false;
  }
  to.elements = counts[0];
  to.nans = counts[1];
  to.infinities = counts[2];
  to.zeros = counts[3];
  to.subnormals = counts[4];
  to.first_nonfinite = first;
  return true;
}

// Takes the values from `pending`, which may wait for a device.
bool arrive(ScanResult* self) {
  if (self->pending == nullptr) return true;
  PyObject* const row = PyObject_CallNoArgs(self->pending);
  if (row == nullptr) return false;
  const bool right = fill(self->values, row);
  Py_DECREF(row);
  if (!right) return false;
  Py_CLEAR(self->pending);
  return true;
}

template <std::uint64_t scan::Result::* Member>
PyObject* get_count(PyObject* self, void*) {
  if (!arrive(self_of(self))) return nullptr;
  return PyLong_FromUnsignedLongLong(self_of(self)->values.*Member);
}

template <double scan::Result::* Member>
PyObject* get_number(PyObject* self, void*) {
  if (!arrive(self_of(self))) return nullptr;
  return PyFloat_FromDouble(self_of(self)->values.*Member);
}

PyObject* get_first(PyObject* self, void*) {
  if (!arrive(self_of(self))) return nullptr;
  const std::int64_t first = self_of(self)->values.first_nonfinite;
  if (first < 0) Py_RETURN_NONE;
  return PyLong_FromLongLong(first);
}

PyObject* get_is_finite(PyObject* self, void*) {
  if (!arrive(self_of(self))) return nullptr;
  return PyBool_FromLong(self_of(self)->values.nans == 0 && self_of(self)->values.infinities == 0);
}

PyObject* get_ready(PyObject* self, void*) {
  PyObject* const pending = self_of(self)->pending;
  if (pending == nullptr) Py_RETURN_TRUE;
  // What _cuda gives knows; what Python gives may have to wait.
  PyObject* const answer = PyObject_CallMethod(pending, "ready", nullptr);
  if (answer == nullptr && PyErr_ExceptionMatches(PyExc_AttributeError)) {
    PyErr_Clear();
    Py_RETURN_FALSE;
  }
  return answer;
}

PyObject* get_dtype(PyObject* self, void*) { return Py_NewRef(self_of(self)->dtype); }

PyGetSetDef kFields[] = {
    {"abs_min", get_number<&scan::Result::abs_min>, nullptr,
     "The least |x| of all but NaN: 0.0 where a zero is; nan if nothing is left.", nullptr},
    {"abs_max", get_number<&scan::Result::abs_max>, nullptr,
     "The largest |x| of all but NaN: inf where an Inf is; nan if nothing is left.", nullptr},
    {"abs_min_nonzero", get_number<&scan::Result::abs_min_nonzero>, nullptr,
     "The least |x| that is neither zero nor NaN; nan if nothing is left.", nullptr},
    {"abs_max_finite", get_number<&scan::Result::abs_max_finite>, nullptr,
     "The largest |x| that is neither Inf nor NaN; nan if nothing is left.", nullptr},
    {"nan_count", get_count<&scan::Result::nans>, nullptr, "How many values are NaN.", nullptr},
    {"inf_count", get_count<&scan::Result::infinities>, nullptr, "How many values are infinite.",
     nullptr},
    {"zero_count", get_count<&scan::Result::zeros>, nullptr,
     "How many values are zero, of either sign.", nullptr},
    {"subnormal_count", get_count<&scan::Result::subnormals>, nullptr,
     "How many values are subnormal: not zero, but too small for the full precision.", nullptr},
    {"numel", get_count<&scan::Result::elements>, nullptr, "How many elements there are.", nullptr},
    {"first_nonfinite", get_first, nullptr,
     "Flat index, in C order, of the first element that is NaN or infinite; None if there is none.",
     nullptr},
    {"is_finite", get_is_finite, nullptr, "Whether there is neither NaN nor Inf.", nullptr},
    {"ready", get_ready, nullptr,
     "Whether the numbers are here: reading one of them waits for no device.", nullptr},
    {"dtype", get_dtype, nullptr, "Name of the data type, as PyTorch and NumPy name it.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

// Room of results that are gone, for those to come: a step of a training makes and drops hundreds.
constexpr std::size_t kMostSpare = 128;
ScanResult* spare[kMostSpare];
std::size_t spare_count = 0;

void dealloc(PyObject* self) {
  Py_XDECREF(self_of(self)->dtype);
  Py_XDECREF(self_of(self)->pending);
  PyTypeObject* const type = Py_TYPE(self);
  if (spare_count < kMostSpare) {
    spare[spare_count++] = self_of(self);
  } else {
    PyObject_Free(self);  // what tp_free does for a type without subclasses
  }
  Py_DECREF(type);
}

std::string shown(double number) {
  char* const text = PyOS_double_to_string(number, 'g', 6, 0, nullptr);
  if (text == nullptr) {
    PyErr_Clear();
    return "?";
  }
  std::string copy = text;
  PyMem_Free(text);
  return copy;
}

PyObject* repr(PyObject* self) {
  if (self_of(self)->pending != nullptr) {
    return PyUnicode_FromFormat("ScanResult(dtype=%R, not read yet)", self_of(self)->dtype);
  }
  const scan::Result& values = self_of(self)->values;
  std::string text = "abs_min=" + shown(values.abs_min) + ", abs_max=" + shown(values.abs_max);
  text += ", nan_count=" + std::to_string(values.nans);
  text += ", inf_count=" + std::to_string(values.infinities);
  text += ", zero_count=" + std::to_string(values.zeros);
  text += ", numel=" + std::to_string(values.elements);
  if (values.first_nonfinite >= 0) {
    text += ", first_nonfinite=" + std::to_string(values.first_nonfinite);
  }
  return PyUnicode_FromFormat("ScanResult(%s, dtype=%R)", text.c_str(), self_of(self)->dtype);
}

// An object whose values the caller sets. tp_alloc() would fill it with zeros first: 10 ns.
PyObject* made(PyObject* dtype, PyObject* pending) {
  ScanResult* self = nullptr;
  if (spare_count != 0) {
    self = spare[--spare_count];
    PyObject_Init(&self->head, result_type);
  } else {
    self = PyObject_New(ScanResult, result_type);
  }
  if (self == nullptr) return nullptr;
  self->dtype = Py_NewRef(dtype);
  self->pending = Py_XNewRef(pending);
  return reinterpret_cast<PyObject*>(self);
}

PyObject* made_for_later(PyObject* dtype, PyObject* pending) {
  PyObject* const self = made(dtype, pending);
  if (self != nullptr) self_of(self)->values = {.first_nonfinite = -1};
  return self;
}

// ScanResult.later(dtype, pending): for numbers that are still on a device.
PyObject* later(PyObject*, PyObject* args) {
  PyObject* dtype = nullptr;
  PyObject* pending = nullptr;
  if (!PyArg_ParseTuple(args, "UO", &dtype, &pending)) return nullptr;
  return made_for_later(dtype, pending);
}

// For pickle and copy, which wait for the numbers: results are sent between ranks and processes.
PyObject* reduce(PyObject* self, PyObject*) {
  if (!arrive(self_of(self))) return nullptr;
  PyObject* const module = PyImport_ImportModule("postmortem._scan");
  if (module == nullptr) return nullptr;
  PyObject* const maker = PyObject_GetAttrString(module, "_result");
  Py_DECREF(module);
  if (maker == nullptr) return nullptr;
  const scan::Result& of = self_of(self)->values;
  return Py_BuildValue(
      "N(O(KKKKKLdddd))", maker, self_of(self)->dtype, static_cast<unsigned long long>(of.elements),
      static_cast<unsigned long long>(of.nans), static_cast<unsigned long long>(of.infinities),
      static_cast<unsigned long long>(of.zeros), static_cast<unsigned long long>(of.subnormals),
      static_cast<long long>(of.first_nonfinite), of.abs_min, of.abs_max, of.abs_min_nonzero,
      of.abs_max_finite);
}

bool same_number(double a, double b) { return a == b || (a != a && b != b); }

bool same(const scan::Result& a, const scan::Result& b) {
  return a.elements == b.elements && a.nans == b.nans && a.infinities == b.infinities &&
         a.zeros == b.zeros && a.subnormals == b.subnormals &&
         a.first_nonfinite == b.first_nonfinite && same_number(a.abs_min, b.abs_min) &&
         same_number(a.abs_max, b.abs_max) && same_number(a.abs_min_nonzero, b.abs_min_nonzero) &&
         same_number(a.abs_max_finite, b.abs_max_finite);
}

// Equal where all numbers and the data type are; NaN is like NaN here.
PyObject* compare(PyObject* self, PyObject* other, int operation) {
  if (Py_TYPE(other) != result_type || (operation != Py_EQ && operation != Py_NE)) {
    Py_RETURN_NOTIMPLEMENTED;
  }
  bool equal = self == other;
  if (!equal) {
    if (!arrive(self_of(self)) || !arrive(self_of(other))) return nullptr;
    const int dtypes = PyObject_RichCompareBool(self_of(self)->dtype, self_of(other)->dtype, Py_EQ);
    if (dtypes < 0) return nullptr;
    equal = dtypes == 1 && same(self_of(self)->values, self_of(other)->values);
  }
  return PyBool_FromLong(equal == (operation == Py_EQ));
}

Py_hash_t hash(PyObject* self) {
  if (!arrive(self_of(self))) return -1;
  const scan::Result& of = self_of(self)->values;
  std::uint64_t mixed = 0;
  for (const std::uint64_t part : {of.elements, of.nans, of.infinities, of.zeros, of.subnormals,
                                   static_cast<std::uint64_t>(of.first_nonfinite)}) {
    mixed = (mixed ^ part) * 0x9e3779b97f4a7c15U;
    mixed ^= mixed >> 32;
  }
  const auto result = static_cast<Py_hash_t>(mixed);
  return result == -1 ? -2 : result;
}

PyMethodDef kMethods[] = {
    {"__reduce__", reduce, METH_NOARGS, nullptr},
    {"_later", later, METH_VARARGS | METH_STATIC, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot kSlots[] = {
    {Py_tp_doc, const_cast<char*>("What one pass over a tensor found.\n\n"
                                  "Of complex numbers every count but numel is of components, and "
                                  "|x| is that of a component. Results are equal if all numbers "
                                  "and the data type are, where NaN is like NaN.")},
    {Py_tp_getset, kFields},
    {Py_tp_methods, kMethods},
    {Py_tp_repr, reinterpret_cast<void*>(repr)},
    {Py_tp_richcompare, reinterpret_cast<void*>(compare)},
    {Py_tp_hash, reinterpret_cast<void*>(hash)},
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
    {0, nullptr},
};

// Without the garbage collector: what `pending` refers to knows no result, and a list of results
// of each step of a training must not be a reason to collect.
PyType_Spec kSpec = {
    "postmortem._scan.ScanResult",
    static_cast<int>(sizeof(ScanResult)),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    kSlots,
};

}  // namespace

bool add_scan_result(PyObject* module) {
  PyObject* const type = PyType_FromModuleAndSpec(module, &kSpec, nullptr);
  if (type == nullptr) return false;
  result_type = reinterpret_cast<PyTypeObject*>(type);
  return PyModule_AddObjectRef(module, "ScanResult", type) == 0;
}

const scan::Result* values_in(PyObject* object) {
  if (Py_TYPE(object) != result_type || self_of(object)->pending != nullptr) return nullptr;
  return &self_of(object)->values;
}

PyObject* result_of_row(PyObject*, PyObject* args) {
  PyObject* dtype = nullptr;
  PyObject* row = nullptr;
  scan::Result values;
  if (!PyArg_ParseTuple(args, "UO", &dtype, &row) || !fill(values, row)) return nullptr;
  PyObject* const self = made(dtype, nullptr);
  if (self != nullptr) self_of(self)->values = values;
  return self;
}

PyObject* dtype_in(PyObject* result) { return self_of(result)->dtype; }

bool is_narrow_float(PyObject* result) {
  const char* const name = PyUnicode_AsUTF8(dtype_in(result));
  return name != nullptr &&
         (std::strncmp(name, "float8", 6) == 0 || std::strncmp(name, "float4", 6) == 0);
}

namespace {

// The few names are made once and shared. A borrowed reference.
PyObject* name_of(const char* dtype) {
  static PyObject* names[scan::kFormats + 4] = {};
  static const char* texts[scan::kFormats + 4] = {};
  std::size_t at = 0;
  while (texts[at] != dtype && texts[at] != nullptr && at + 1 < std::size(texts)) ++at;
  if (texts[at] != dtype) {
    PyObject* const name = PyUnicode_InternFromString(dtype);
    if (name == nullptr) return nullptr;
    names[at] = name;
    texts[at] = dtype;
  }
  return names[at];
}

}  // namespace

PyObject* new_scan_result(const scan::Result& result, const char* dtype) {
  PyObject* const name = name_of(dtype);
  PyObject* const self = name == nullptr ? nullptr : made(name, nullptr);
  if (self != nullptr) self_of(self)->values = result;
  return self;
}

PyObject* new_scan_result(const scan::Array& array, const char* dtype) {
  PyObject* const name = name_of(dtype);
  PyObject* const self = name == nullptr ? nullptr : made(name, nullptr);
  if (self != nullptr) new (&self_of(self)->values) scan::Result(scan::scan(array));
  return self;
}

PyObject* new_pending_result(PyObject* pending, const char* dtype) {
  PyObject* const name = name_of(dtype);
  PyObject* const self = name == nullptr ? nullptr : made_for_later(name, pending);
  Py_DECREF(pending);
  return self;
}

}  // namespace pm::bind
