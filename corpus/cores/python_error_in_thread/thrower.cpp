// A C++ thread calls Python, and the Python error leaves the thread as a C++ exception.
#include <pybind11/pybind11.h>

#include <thread>

namespace py = pybind11;

extern "C" __attribute__((visibility("default"))) void run_in_thread(PyObject* callable) {
  std::thread([callable] {
    py::gil_scoped_acquire gil;
    py::reinterpret_borrow<py::object>(callable)();
  }).join();
}
