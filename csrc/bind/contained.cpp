// What a process that reads evidence does about itself: who watches it, and what it may not do.
#include "bind/register.h"

#include <sys/prctl.h>

#include "base/underway.h"

namespace py = pybind11;

namespace pm::bind {
namespace {

void watch(const py::buffer& page) {
  const py::buffer_info info = page.request(true);
  if (info.size < static_cast<py::ssize_t>(underway::kPathBytes)) {
    throw py::value_error("the page is too small");
  }
  page.inc_ref();  // for ever: any thread may write to it
  underway::watch(static_cast<char*>(info.ptr));
}

bool renounce_rights() { return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0; }

}  // namespace

void register_contained(py::module_& module) {
  module.def("watch", &watch, py::arg("page"));
  module.def("refuse", &underway::refuse, py::arg("path"), py::arg("why"));
  module.def("renounce_rights", &renounce_rights);
}

}  // namespace pm::bind
