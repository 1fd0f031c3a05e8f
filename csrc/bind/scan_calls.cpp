// Scans: the tensors of one call of a module, each scanned once for as long as it does not change.
//
// This is what a hook of the monitor runs for every module of every step. In Python it costs 40 us
// a call once the training step has emptied the caches.
#include "bind/scan_calls.h"

#include "bind/known_scans.h"
#include "bind/scan_result.h"
#include "bind/scan_tensors.h"

namespace py = pybind11;

namespace pm::bind {
namespace {

constexpr int kDeepest = 4;
constexpr Py_ssize_t kMostNames = 16;
constexpr std::size_t kMostLeaves = 512;

struct Scans {
  PyObject head;
  PyObject* opaque;  // a set of types that hold no tensors
  Known* known;
  unsigned long long scanned;
  unsigned long long spared;
};

PyObject* requires_grad_name = nullptr;
PyObject* none_note = nullptr;
PyObject* other_note = nullptr;
PyObject* output_name = nullptr;
PyObject* input_names[kMostNames] = {};

Scans* self_of(PyObject* self) { return reinterpret_cast<Scans*>(self); }

// A new reference to the tensor's numbers; null without a Python error if it is not plain memory.
PyObject* look(Scans* self, PyObject* tensor) {
  Held held;
  if (take_trusted(tensor, held) != Taken::yes) return nullptr;
  const scan::Array& array = held.array;
  Known& known = self->known[slot_of(array.data)];
  const long long version = array.data == nullptr ? -1 : version_of(tensor);
  if (version >= 0 && known.address != nullptr && still_holds(known, tensor, array, version)) {
    ++self->spared;
    return Py_NewRef(known.result);
  }
  ++self->scanned;
  scan::Result found;
  if (scan::bytes_of(array) < kReleaseBytes) {
    found = scan::scan(array);
  } else {
    Py_BEGIN_ALLOW_THREADS found = scan::scan(array);
    Py_END_ALLOW_THREADS
  }
  PyObject* const result = new_scan_result(found, held.dtype);
  if (result != nullptr && version >= 0) remember(known, tensor, array, version, result);
  return result;
}

// Walks through the arguments or the output of one call, and adds names and numbers to a list.
class Walk {
 public:
  Walk(Scans* self, PyObject* into) : self_(self), into_(into) {}

  bool bad = false;
  bool stopped = false;  // something is here that Python has to look at, or an error is set

  void argument(PyObject* value, PyObject* name) {
    if (leaf(value, name) || stopped) return;
    if (value == Py_None) {
      add(name, none_note);
    } else if (!is_plain_value(value) && holds_something(value)) {
      const Py_ssize_t before = PyList_GET_SIZE(into_);
      inside(value, name, 0);
      if (!stopped && PyList_GET_SIZE(into_) == before) add(name, other_note);
    } else if (!stopped) {
      add(name, other_note);
    }
  }

  // Tensors only, as of keyword arguments.
  void tensors(PyObject* value, PyObject* name, int depth) {
    if (leaf(value, name) || stopped || value == Py_None || is_plain_value(value)) return;
    if (holds_something(value)) inside(value, name, depth);
  }

  void output(PyObject* value) {
    if (!PyTuple_CheckExact(value)) return argument(value, output_name);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value) && !stopped; ++i) {
      PyObject* const part = PyTuple_GET_ITEM(value, i);
      if (PyTuple_CheckExact(part)) {
        for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(part) && !stopped; ++j) {
          named(PyUnicode_FromFormat("output[%zd][%zd]", i, j),
                [&](PyObject* name) { argument(PyTuple_GET_ITEM(part, j), name); });
        }
      } else {
        named(PyUnicode_FromFormat("output[%zd]", i),
              [&](PyObject* name) { argument(part, name); });
      }
    }
  }

  template <typename Then>
  void named(PyObject* name, Then then) {
    if (name == nullptr) {
      stopped = true;
      return;
    }
    then(name);
    Py_DECREF(name);
  }

 private:
  void add(PyObject* name, PyObject* what) {
    if (static_cast<std::size_t>(PyList_GET_SIZE(into_)) >= 2 * kMostLeaves ||
        PyList_Append(into_, name) != 0 || PyList_Append(into_, what) != 0) {
      stopped = true;
    }
  }

  bool leaf(PyObject* value, PyObject* name) {
    if (!is_trusted(value)) return false;
    const py::object held = py::reinterpret_borrow<py::object>(value);
    PyObject* const result = look(self_, value);
    if (result == nullptr) {
      stopped = true;
      return false;
    }
    const scan::Result* const found = values_in(result);
    if (found == nullptr || is_narrow_float(result)) {
      stopped = true;
    } else {
      bad = bad || found->nans != 0 || found->infinities != 0;
      add(name, result);
    }
    Py_DECREF(result);
    return true;
  }

  static bool is_plain_value(PyObject* value) {
    return PyBool_Check(value) || PyLong_CheckExact(value) || PyFloat_CheckExact(value) ||
           PyUnicode_CheckExact(value);
  }

  // False for types that Python found to hold no tensors; stops at those that it has to look at.
  bool holds_something(PyObject* value) {
    if (PyTuple_CheckExact(value) || PyList_CheckExact(value) || PyDict_CheckExact(value)) {
      return true;
    }
    const int known = PySet_Contains(self_->opaque, reinterpret_cast<PyObject*>(Py_TYPE(value)));
    if (known != 1) stopped = true;
    return false;
  }

  void inside(PyObject* value, PyObject* name, int depth) {
    if (depth > kDeepest) {
      stopped = true;
      return;
    }
    if (PyDict_CheckExact(value)) {
      PyObject* key = nullptr;
      PyObject* part = nullptr;
      Py_ssize_t at = 0;
      while (!stopped && PyDict_Next(value, &at, &key, &part)) {
        if (!PyUnicode_CheckExact(key)) {
          stopped = true;
          return;
        }
        named(PyUnicode_FromFormat("%U[%U]", name, key),
              [&](PyObject* full) { tensors(part, full, depth + 1); });
      }
      return;
    }
    const bool is_tuple = PyTuple_CheckExact(value);
    for (Py_ssize_t i = 0; !stopped; ++i) {
      if (i >= (is_tuple ? PyTuple_GET_SIZE(value) : PyList_GET_SIZE(value))) return;
      if (i >= static_cast<Py_ssize_t>(kMostLeaves)) {
        stopped = true;
        return;
      }
      PyObject* const part = is_tuple ? PyTuple_GET_ITEM(value, i) : PyList_GET_ITEM(value, i);
      const py::object held = py::reinterpret_borrow<py::object>(part);
      named(PyUnicode_FromFormat("%U[%zd]", name, i),
            [&](PyObject* full) { tensors(part, full, depth + 1); });
    }
  }

  Scans* self_;
  PyObject* into_;
};

// scans.call(args, kwargs, output, into) -> int. Adds name and numbers (or a note) of every input
// and output. Returns -1 if Python has to look at the call, else twice the number of inputs, plus
// one if something is not finite.
PyObject* call(PyObject* self, PyObject* const* given, Py_ssize_t count) {
  if (count != 4 || !PyTuple_Check(given[0]) || !PyDict_Check(given[1]) ||
      !PyList_Check(given[3])) {
    PyErr_SetString(PyExc_TypeError, "call(args, kwargs, output, into)");
    return nullptr;
  }
  PyObject* const args = given[0];
  Walk walk(self_of(self), given[3]);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args) && !walk.stopped; ++i) {
    if (i >= kMostNames) {
      walk.stopped = true;
      break;
    }
    walk.argument(PyTuple_GET_ITEM(args, i), input_names[i]);
  }
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  Py_ssize_t at = 0;
  while (!walk.stopped && PyDict_Next(given[1], &at, &key, &value)) {
    if (value == Py_None || PyBool_Check(value)) continue;
    walk.named(PyUnicode_FromFormat("input[%S]", key),
               [&](PyObject* name) { walk.tensors(value, name, 0); });
  }
  const Py_ssize_t inputs = PyList_GET_SIZE(given[3]) / 2;
  if (!walk.stopped) walk.output(given[2]);
  if (PyErr_Occurred()) return nullptr;
  return PyLong_FromSsize_t(walk.stopped ? -1 : 2 * inputs + (walk.bad ? 1 : 0));
}

PyObject* numbers(PyObject* self, PyObject* tensor) {
  PyObject* const result = is_trusted(tensor) ? look(self_of(self), tensor) : nullptr;
  if (result != nullptr || PyErr_Occurred()) return result;
  Py_RETURN_NONE;
}

// scans.weights(parameters) -> list | None. Names and numbers of a module's parameters; None if
// Python has to look at them: one is frozen (its numbers may be known from batches before), of
// another type or device, or not finite.
PyObject* weights(PyObject* self, PyObject* parameters) {
  if (!PyDict_Check(parameters)) {
    PyErr_SetString(PyExc_TypeError, "weights(parameters)");
    return nullptr;
  }
  py::object pairs = py::reinterpret_steal<py::object>(PyList_New(0));
  if (!pairs) return nullptr;
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  Py_ssize_t at = 0;
  while (PyDict_Next(parameters, &at, &key, &value)) {
    if (value == Py_None) continue;
    const py::object name = py::reinterpret_borrow<py::object>(key);
    const py::object weight = py::reinterpret_borrow<py::object>(value);
    if (!is_trusted(value)) Py_RETURN_NONE;
    const py::object trained =
        py::reinterpret_steal<py::object>(PyObject_GetAttr(value, requires_grad_name));
    if (trained.ptr() != Py_True) {
      PyErr_Clear();
      Py_RETURN_NONE;
    }
    const py::object result = py::reinterpret_steal<py::object>(look(self_of(self), value));
    if (!result && PyErr_Occurred()) return nullptr;
    const scan::Result* const found = result ? values_in(result.ptr()) : nullptr;
    if (found == nullptr || is_narrow_float(result.ptr()) || found->nans != 0 ||
        found->infinities != 0) {
      Py_RETURN_NONE;
    }
    if (PyList_Append(pairs.ptr(), name.ptr()) != 0 ||
        PyList_Append(pairs.ptr(), result.ptr()) != 0) {
      return nullptr;
    }
  }
  return pairs.release().ptr();
}

PyObject* forget(PyObject* self, PyObject*) {
  for (std::size_t i = 0; i < kSlots; ++i) drop(self_of(self)->known[i]);
  Py_RETURN_NONE;
}

PyObject* get_scanned(PyObject* self, void*) {
  return PyLong_FromUnsignedLongLong(self_of(self)->scanned);
}

PyObject* get_spared(PyObject* self, void*) {
  return PyLong_FromUnsignedLongLong(self_of(self)->spared);
}

PyObject* get_opaque(PyObject* self, void*) { return Py_NewRef(self_of(self)->opaque); }

PyObject* make(PyTypeObject* type, PyObject*, PyObject*) {
  PyObject* const self = type->tp_alloc(type, 0);
  if (self == nullptr) return nullptr;
  self_of(self)->opaque = PySet_New(nullptr);
  self_of(self)->known = new (std::nothrow) Known[kSlots];
  if (self_of(self)->opaque == nullptr || self_of(self)->known == nullptr) {
    Py_DECREF(self);
    return PyErr_NoMemory();
  }
  return self;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(self_of(self)->opaque);
  return 0;
}

void dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  if (self_of(self)->known != nullptr) {
    for (std::size_t i = 0; i < kSlots; ++i) drop(self_of(self)->known[i]);
    delete[] self_of(self)->known;
  }
  Py_XDECREF(self_of(self)->opaque);
  PyTypeObject* const type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyMethodDef kMethods[] = {
    {"call", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(call)), METH_FASTCALL, nullptr},
    {"numbers", numbers, METH_O, nullptr},
    {"weights", weights, METH_O, nullptr},
    {"forget", forget, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef kFields[] = {
    {"scanned", get_scanned, nullptr, "How many tensors were read.", nullptr},
    {"spared", get_spared, nullptr, "How many were not, for nothing had changed.", nullptr},
    {"opaque", get_opaque, nullptr, "Types that hold no tensors.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot kTypeSlots[] = {
    {Py_tp_doc, const_cast<char*>("Scans tensors once for as long as they do not change.")},
    {Py_tp_new, reinterpret_cast<void*>(make)},
    {Py_tp_methods, kMethods},
    {Py_tp_getset, kFields},
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {0, nullptr},
};

PyType_Spec kSpec = {"postmortem._scan.CallScans", static_cast<int>(sizeof(Scans)), 0,
                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
                     kTypeSlots};

}  // namespace

bool add_scan_calls(PyObject* module) {
  requires_grad_name = PyUnicode_InternFromString("requires_grad");
  none_note = PyUnicode_InternFromString("None");
  other_note = PyUnicode_InternFromString("not a tensor");
  output_name = PyUnicode_InternFromString("output");
  for (Py_ssize_t i = 0; i < kMostNames; ++i) {
    input_names[i] = PyUnicode_FromFormat("input[%zd]", i);
    if (input_names[i] == nullptr) return false;
  }
  PyObject* const type = PyType_FromModuleAndSpec(module, &kSpec, nullptr);
  if (type == nullptr) return false;
  const bool added = PyModule_AddObjectRef(module, "CallScans", type) == 0;
  Py_DECREF(type);
  return added && init_known_scans() && requires_grad_name != nullptr && none_note != nullptr &&
         other_note != nullptr && output_name != nullptr;
}

}  // namespace pm::bind
