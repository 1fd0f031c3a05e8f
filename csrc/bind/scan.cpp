// The extension module _scan: fastscan() and what its Python side builds on.
//
// fastscan() itself is a plain C function: the call of a function of pybind11 costs as much as the
// scan of a small tensor.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "bind/cuda_scanner.h"
#include "bind/flight_records.h"
#include "bind/scan_calls.h"
#include "bind/scan_result.h"
#include "bind/scan_tensors.h"
#include "scan/scan.h"

namespace py = pybind11;

namespace pm::bind {
namespace {

PyObject* scan_other = nullptr;  // Python: what to do with all else
const CudaScanner* cuda_scanner = nullptr;

PyObject* scanned(const Held& held) {
  if (scan::bytes_of(held.array) < kReleaseBytes) return new_scan_result(held.array, held.dtype);
  scan::Result result;
  {
    Py_BEGIN_ALLOW_THREADS result = scan::scan(held.array);
    Py_END_ALLOW_THREADS
  }
  return new_scan_result(result, held.dtype);
}

PyObject* ask_python(PyObject* object) {
  if (scan_other == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "import postmortem.scan first");
    return nullptr;
  }
  return PyObject_CallOneArg(scan_other, object);
}

// Scans tensors that lie on one device and stream in one launch, and puts the results into a list;
// those that _cuda does not take are left to Python.
bool scan_on_cuda(const std::vector<Held>& held, const std::vector<std::size_t>& places,
                  PyObject* items, PyObject* list) {
  std::vector<CudaTensor> tensors;
  for (const std::size_t i : places) {
    tensors.push_back({held[i].array, held[i].device, held[i].stream});
  }
  std::vector<PyObject*> pending(places.size(), nullptr);
  const Launched launched = cuda_scanner->scan(tensors.data(), tensors.size(), pending.data());
  if (launched == Launched::error) return false;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto place = static_cast<Py_ssize_t>(places[i]);
    PyObject* const result = launched == Launched::yes
                                 ? new_pending_result(pending[i], held[places[i]].dtype)
                                 : ask_python(PyTuple_GET_ITEM(items, place));
    if (result == nullptr) {
      for (std::size_t k = i + 1; k < places.size(); ++k) Py_CLEAR(pending[k]);
      return false;
    }
    PyList_SET_ITEM(list, place, result);
  }
  return true;
}

// Scans the tensors of a list or tuple one by one and puts the results into a list, up to the first
// that Python has to look at, or that lies on a GPU, or with which it is worth to leave the
// interpreter. Returns how many that were, or -1 with a Python error. No Python code runs
// meanwhile, which could change the sequence.
Py_ssize_t scan_small(PyObject* sequence, PyObject* list) {
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(sequence);
  PyObject** const items = PySequence_Fast_ITEMS(sequence);
  std::uint64_t bytes = 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    Held held;
    if (take_trusted(items[i], held, false) != Taken::yes) return i;
    if ((bytes += scan::bytes_of(held.array)) >= kReleaseBytes) return i;
    PyObject* const result = new_scan_result(held.array, held.dtype);
    if (result == nullptr) return -1;
    PyList_SET_ITEM(list, i, result);
  }
  return count;
}

PyObject* scan_sequence(PyObject* sequence) {
  PyObject* const list = PyList_New(PySequence_Fast_GET_SIZE(sequence));
  if (list == nullptr) return nullptr;
  py::object made = py::reinterpret_steal<py::object>(list);
  const Py_ssize_t before = scan_small(sequence, list);
  if (before < 0) return nullptr;
  if (before == PyList_GET_SIZE(list)) return made.release().ptr();
  PyObject* const items = PySequence_Tuple(sequence);  // ours: nobody changes it meanwhile
  if (items == nullptr) return nullptr;
  const py::object owner = py::reinterpret_steal<py::object>(items);
  const auto count = static_cast<std::size_t>(PyTuple_GET_SIZE(items));
  if (count != static_cast<std::size_t>(PyList_GET_SIZE(list))) {
    PyErr_SetString(PyExc_RuntimeError, "the sequence is not as long as it was");
    return nullptr;
  }
  const auto begin = static_cast<std::size_t>(before);
  std::vector<Held> held(count);
  std::vector<scan::Array> arrays;
  std::vector<std::size_t> places;
  arrays.reserve(count - begin);
  places.reserve(count - begin);
  std::vector<std::size_t> on_cuda;
  std::uint64_t bytes = 0;
  for (std::size_t i = begin; i < count; ++i) {
    PyObject* const item = PyTuple_GET_ITEM(items, static_cast<Py_ssize_t>(i));
    const Taken taken = take_trusted(item, held[i]);
    if (taken == Taken::on_cuda && cuda_scanner != nullptr) {
      on_cuda.push_back(i);
      continue;
    }
    if (taken == Taken::yes) {
      arrays.push_back(held[i].array);
      places.push_back(i);
      bytes += scan::bytes_of(held[i].array);
      continue;
    }
    PyObject* const result = ask_python(item);
    if (result == nullptr) return nullptr;
    PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), result);
  }
  while (!on_cuda.empty()) {
    // A launch for each device.
    const std::int32_t device = held[on_cuda[0]].device;
    std::vector<std::size_t> here, elsewhere;
    for (const std::size_t i : on_cuda) {
      (held[i].device == device ? here : elsewhere).push_back(i);
    }
    if (!scan_on_cuda(held, here, items, list)) return nullptr;
    on_cuda = std::move(elsewhere);
  }
  std::vector<scan::Result> results(arrays.size());
  if (bytes < kReleaseBytes) {
    scan::scan_all(arrays, results);
  } else {
    Py_BEGIN_ALLOW_THREADS scan::scan_all(arrays, results);
    Py_END_ALLOW_THREADS
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    PyObject* const result = new_scan_result(results[i], held[places[i]].dtype);
    if (result == nullptr) return nullptr;
    PyList_SET_ITEM(list, static_cast<Py_ssize_t>(places[i]), result);
  }
  return made.release().ptr();
}

PyObject* fastscan(PyObject*, PyObject* object) {
  Held held;
  const Taken taken = take_trusted(object, held);
  if (taken == Taken::yes) return scanned(held);
  if (taken == Taken::on_cuda && cuda_scanner != nullptr) {
    const CudaTensor tensor{held.array, held.device, held.stream};
    PyObject* pending = nullptr;
    const Launched launched = cuda_scanner->scan(&tensor, 1, &pending);
    if (launched == Launched::yes) return new_pending_result(pending, held.dtype);
    return launched == Launched::error ? nullptr : ask_python(object);
  }
  if (PyList_Check(object) || PyTuple_Check(object)) {
    try {
      return scan_sequence(object);
    } catch (const std::bad_alloc&) {
      return PyErr_NoMemory();
    }
  }
  return ask_python(object);
}

PyObject* scan_capsule(PyObject*, PyObject* capsule) {
  Held held;
  switch (take_capsule(capsule, held)) {
    case Taken::yes:
      return scanned(held);
    case Taken::on_cuda:  // whoever made the capsule knows the stream, we do not
    case Taken::no:
      Py_RETURN_NONE;
    default:
      return nullptr;
  }
}

PyObject* on_other(PyObject*, PyObject* function) {
  Py_XSETREF(scan_other, Py_NewRef(function));
  Py_RETURN_NONE;
}

PyObject* on_cuda(PyObject*, PyObject* capsule) {
  const void* const scanner = PyCapsule_GetPointer(capsule, kCudaScanner);
  if (scanner == nullptr) return nullptr;
  Py_INCREF(capsule);  // for good
  cuda_scanner = static_cast<const CudaScanner*>(scanner);
  Py_RETURN_NONE;
}

PyMethodDef kFunctions[] = {
    {"fastscan", fastscan, METH_O,
     "fastscan(tensor, /)\n--\n\n"
     "Return a ScanResult of one pass over a tensor; of a list or tuple, a list of them.\n\n"
     "Any shape, strides and data type of training; NumPy arrays and whatever has __dlpack__ too.\n"
     "Raises TypeError for what has no values that could be read: meta, sparse, quantised, masked\n"
     "tensors, and those whose memory is freed."},
    {"_result", result_of_row, METH_VARARGS, nullptr},
    {"scan_capsule", scan_capsule, METH_O, nullptr},
    {"trust_type", trust_type, METH_VARARGS, nullptr},
    {"on_other", on_other, METH_O, nullptr},
    {"on_cuda", on_cuda, METH_O, nullptr},
    {"write_records", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(write_records)),
     METH_FASTCALL, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

py::object scan_memory(std::uintptr_t address, const std::string& dtype,
                       const std::vector<std::int64_t>& shape,
                       const std::optional<std::vector<std::int64_t>>& strides) {
  Held held;
  if (!name_dtype(dtype, held)) throw py::value_error("no data type that can be scanned: " + dtype);
  const auto count = scan::element_count(shape);
  if (!count || (strides && strides->size() != shape.size())) {
    throw py::value_error("shape and strides are of no array");
  }
  if (*count != 0 && address == 0) throw py::value_error("the array has no memory");
  held.array.data = reinterpret_cast<const void*>(address);
  held.lay_out(shape.data(), strides && *count != 0 ? strides->data() : nullptr, shape.size(),
               *count);
  PyObject* const result = scanned(held);
  if (result == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(result);
}

}  // namespace
}  // namespace pm::bind

PYBIND11_MODULE(_scan, module) {
  namespace bind = pm::bind;
  module.doc() = "One pass over tensors; _scan.pyi is the manual.";
  if (PyModule_AddFunctions(module.ptr(), bind::kFunctions) != 0 ||
      !bind::add_scan_result(module.ptr()) || !bind::add_scan_calls(module.ptr())) {
    throw py::error_already_set();
  }
  module.def("scan_memory", bind::scan_memory, py::arg("address"), py::kw_only(), py::arg("dtype"),
             py::arg("shape"), py::arg("strides") = py::none());
  bind::register_scan_file(module);
  module.def(
      "read_memory",
      [](std::uintptr_t address, std::uint64_t bytes) {
        const py::gil_scoped_release release;
        pm::scan::read_memory(reinterpret_cast<const void*>(address), bytes);
      },
      py::arg("address"), py::arg("bytes"));
  module.def("levels", [] {
    py::list names;
    for (const std::string_view name : pm::scan::levels()) names.append(std::string(name));
    return names;
  });
  module.def("level", [] { return std::string(pm::scan::level()); });
  module.def(
      "use_level",
      [](const std::string& name) {
        if (!pm::scan::use_level(name)) throw py::value_error("not among levels(): " + name);
      },
      py::arg("name"));
  module.def("threads", pm::scan::threads_wanted);
  module.def("set_threads", pm::scan::set_threads, py::arg("count"));
}
