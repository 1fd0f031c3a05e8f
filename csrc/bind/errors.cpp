// The one place where C++ errors become Python exceptions.
#include "base/error.h"

#include "bind/register.h"
#include "bind/rows.h"
#include "strace/output.h"

namespace py = pybind11;

namespace pm::bind {

void register_errors(py::module_&) {
  py::register_local_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const EvidenceError& error) {
      // The caller knows the path; here is only what was seen.
      const py::object type = py::module_::import("postmortem.errors").attr("EvidenceError");
      const py::object value =
          type("core", text(error.what()), py::arg("offset") = optional_int(error.offset()));
      PyErr_SetObject(type.ptr(), value.ptr());
    } catch (const strace::WriteError& error) {
      const py::object value =
          py::reinterpret_borrow<py::object>(PyExc_OSError)(error.code(), error.what());
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(value.ptr())), value.ptr());
    }
  });
}

py::list problems(const Problems& problems) { return rows_of(problems.rows()); }

}  // namespace pm::bind
