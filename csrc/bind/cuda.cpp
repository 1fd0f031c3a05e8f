// The extension module _cuda: scans of tensors on GPUs, whose numbers come when they are asked for.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bind/cuda_scanner.h"
#include "bind/scan_tensors.h"
#include "cuda/scan.h"

namespace py = pybind11;

namespace pm::bind {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kTurn{20};      // between two looks at signals
constexpr std::chrono::seconds kReplayWait{1};      // for a replay that may be under way
constexpr std::chrono::microseconds kBusyWait{50};  // before the thread sleeps

struct PendingObject {
  PyObject head;
  cuda::Plan plan;
  cuda::Pending pending;
  std::int32_t device;
  bool launched;
};

PyTypeObject* pending_type = nullptr;

PendingObject* self_of(PyObject* object) { return reinterpret_cast<PendingObject*>(object); }

bool is_here(PendingObject* self) {
  return self->pending.here || pm_cuda_look(self->device, &self->pending);
}

// Looks until `end`, without the interpreter.
bool look_until(PendingObject* self, Clock::time_point end) {
  const auto began = Clock::now();
  while (!is_here(self)) {
    const auto now = Clock::now();
    if (now >= end) return false;
    if (now - began > kBusyWait) std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  return true;
}

// Waits for the one record; false with a Python error.
bool wait(PendingObject* self) {
  const auto began = Clock::now();
  while (!is_here(self)) {
    bool here = false;
    Py_BEGIN_ALLOW_THREADS here = look_until(self, Clock::now() + kTurn);
    Py_END_ALLOW_THREADS if (here) return true;
    if (PyErr_CheckSignals() != 0) return false;
    if (const char* const error = pm_cuda_health(self->device)) {
      PyErr_Format(PyExc_RuntimeError, "the numbers of this scan will not come: %s", error);
      return false;
    }
    if (self->pending.captured && Clock::now() - began > kReplayWait) {
      PyErr_SetString(PyExc_RuntimeError,
                      "this scan is part of a CUDA graph that has not run yet: replay it first");
      return false;
    }
  }
  return true;
}

PyObject* call(PyObject* object, PyObject*, PyObject*) {
  PendingObject* const self = self_of(object);
  if (!wait(self)) return nullptr;
  const scan::Result r = cuda::result_of(self->plan, self->pending.tally);
  return Py_BuildValue(
      "KKKKKLdddd", static_cast<unsigned long long>(r.elements),
      static_cast<unsigned long long>(r.nans), static_cast<unsigned long long>(r.infinities),
      static_cast<unsigned long long>(r.zeros), static_cast<unsigned long long>(r.subnormals),
      static_cast<long long>(r.first_nonfinite), r.abs_min, r.abs_max, r.abs_min_nonzero,
      r.abs_max_finite);
}

PyObject* ready(PyObject* object, PyObject*) { return PyBool_FromLong(is_here(self_of(object))); }

void dealloc(PyObject* object) {
  PendingObject* const self = self_of(object);
  if (self->launched) pm_cuda_let_go(self->device, &self->pending);
  PyTypeObject* const type = Py_TYPE(object);
  self->plan.~Plan();
  self->pending.~Pending();
  type->tp_free(object);
  Py_DECREF(type);
}

PyMethodDef kMethods[] = {
    {"ready", ready, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot kSlots[] = {
    {Py_tp_doc, const_cast<char*>("Numbers of a scan on a GPU: a call waits for them.")},
    {Py_tp_call, reinterpret_cast<void*>(call)},
    {Py_tp_methods, kMethods},
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
    {0, nullptr},
};
PyType_Spec kSpec = {
    "postmortem._cuda.Pending",
    static_cast<int>(sizeof(PendingObject)),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    kSlots,
};

PyObject* new_pending(const cuda::Plan& plan, std::int32_t device) {
  PyObject* const object = pending_type->tp_alloc(pending_type, 0);
  if (object == nullptr) return nullptr;
  PendingObject* const self = self_of(object);
  new (&self->plan) cuda::Plan(plan);
  new (&self->pending) cuda::Pending();
  self->device = device;
  self->launched = false;
  if (plan.elements == 0) {
    self->pending.tally = cuda::nothing();
    self->pending.here = true;
  }
  return object;
}

// Error text if the launch fails. `pending` has new objects afterwards, or nulls.
const char* launch(std::span<const cuda::Plan> plans, std::int32_t device, void* stream,
                   double* row, PyObject** pending) {
  std::vector<cuda::Plan> some;
  std::vector<cuda::Pending*> theirs;
  std::vector<PendingObject*> launched;
  const char* error = nullptr;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    pending[i] = new_pending(plans[i], device);
    if (pending[i] == nullptr) {
      PyErr_Clear();
      error = "out of memory";
      break;
    }
    if (plans[i].elements == 0) continue;
    theirs.push_back(&self_of(pending[i])->pending);
    launched.push_back(self_of(pending[i]));
  }
  std::span<const cuda::Plan> given = plans;
  if (theirs.size() != plans.size()) {  // without the empty ones
    std::copy_if(plans.begin(), plans.end(), std::back_inserter(some),
                 [](const cuda::Plan& plan) { return plan.elements != 0; });
    given = some;
  }
  if (error == nullptr && !given.empty()) {
    error = pm_cuda_scan(device, stream, given.data(), given.size(), row, theirs.data());
  }
  if (error == nullptr) {
    for (PendingObject* one : launched) one->launched = true;
    return nullptr;
  }
  for (std::size_t i = 0; i < plans.size(); ++i) Py_CLEAR(pending[i]);
  return error;
}

Launched scan_tensors(const CudaTensor* tensors, std::size_t count, PyObject** pending) {
  std::fill_n(pending, count, nullptr);
  try {
    std::vector<cuda::Plan> plans;
    plans.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      std::optional<cuda::Plan> plan = cuda::plan_of(tensors[i].array);
      if (!plan) return Launched::no;
      plans.push_back(*plan);
    }
    if (pm_cuda_prepare(tensors[0].device) != nullptr) return Launched::no;  // Python says why
    const char* const error = launch(plans, tensors[0].device, tensors[0].stream, nullptr, pending);
    if (error == nullptr) return Launched::yes;
    PyErr_SetString(PyExc_RuntimeError, error);
    return Launched::error;
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
    return Launched::error;
  }
}

const CudaScanner kScanner{scan_tensors};

py::object scan_pointer(std::uintptr_t address, std::int32_t device, std::uintptr_t stream,
                        const std::string& dtype, const std::vector<std::int64_t>& shape,
                        const std::optional<std::vector<std::int64_t>>& strides,
                        std::uintptr_t row) {
  Held held;
  if (!name_dtype(dtype, held)) throw py::value_error("no data type that can be scanned: " + dtype);
  const auto count = scan::element_count(shape);
  if (!count || (strides && strides->size() != shape.size())) {
    throw py::value_error("shape and strides are of no array");
  }
  if (*count != 0 && address == 0) throw py::value_error("the tensor has no memory");
  held.array.data = reinterpret_cast<const void*>(address);
  held.lay_out(shape.data(), strides && *count != 0 ? strides->data() : nullptr, shape.size(),
               *count);
  const std::optional<cuda::Plan> plan = cuda::plan_of(held.array);
  if (!plan) return py::none();
  PyObject* pending = nullptr;
  const char* const error = launch({&*plan, 1}, device, reinterpret_cast<void*>(stream),
                                   reinterpret_cast<double*>(row), &pending);
  if (error != nullptr) throw std::runtime_error(error);
  return py::reinterpret_steal<py::object>(pending);
}

py::dict probe() {
  PmCudaProbe found;
  pm_cuda_probe(&found);
  constexpr const char* kNames[] = {"usable", "no driver", "old driver", "no device", "broken"};
  py::dict facts;
  facts["state"] = kNames[found.use];
  facts["driver"] = found.driver;
  facts["runtime"] = found.runtime;
  facts["devices"] = found.devices;
  facts["text"] = found.text;
  return facts;
}

}  // namespace
}  // namespace pm::bind

PYBIND11_MODULE(_cuda, module) {
  namespace bind = pm::bind;
  module.doc() = "Scans of tensors on GPUs; _cuda.pyi is the manual.";
  PyObject* const type = PyType_FromSpec(&bind::kSpec);
  if (type == nullptr) throw py::error_already_set();
  bind::pending_type = reinterpret_cast<PyTypeObject*>(type);
  module.attr("Pending") = py::handle(type);
  module.def("probe", bind::probe);
  module.def("architectures", [] { return std::string(pm_cuda_architectures()); });
  module.def(
      "prepare",
      [](std::int32_t device) -> std::optional<std::string> {
        const char* const why = pm_cuda_prepare(device);
        return why == nullptr ? std::nullopt : std::optional<std::string>(why);
      },
      py::arg("device"));
  module.def("scanner", [] { return py::capsule(&bind::kScanner, bind::kCudaScanner); });
  module.def("scan_pointer", bind::scan_pointer, py::arg("address"), py::kw_only(),
             py::arg("device"), py::arg("stream"), py::arg("dtype"), py::arg("shape"),
             py::arg("strides") = py::none(), py::arg("row") = 0);
}
