// read_process(): what read_core() tells, of a process that still runs.
#include <pybind11/stl.h>

#include <csignal>

#include <sys/prctl.h>
#include <unistd.h>

#include "base/mapped_file.h"
#include "bind/findings.h"
#include "bind/register.h"
#include "bind/rows.h"
#include "live/fields.h"
#include "live/guardian.h"
#include "live/snapshot.h"

namespace py = pybind11;

namespace pm::bind {
namespace {

py::dict live_row(const live::Outcome& outcome) {
  py::dict row = row_of(outcome);
  row["tids"] = outcome.outer;
  return row;
}

py::tuple read_live(std::int32_t pid, bool stop, double patience_seconds,
                    const std::optional<std::filesystem::path>& sysroot, std::size_t max_frames) {
  const SigbusGuard guard;
  py::tuple result;
  const py::gil_scoped_release release;
  Wanted wanted{{"", sysroot.value_or("")}, true, max_frames, cpython::Options{}};
  std::unique_ptr<Findings> found;
  const auto read = [&](elfcore::Core& core) {
    found = std::make_unique<Findings>();
    read_findings(core, wanted, *found);
  };
  const auto finish = [&](elfcore::Core& core, const live::Outcome& outcome) {
    const py::gil_scoped_acquire acquire;
    result = py::make_tuple(findings_row(core, *found), live_row(outcome));
  };
  const auto patience = std::chrono::milliseconds(static_cast<long>(patience_seconds * 1000));
  live::read_process(pid, {stop, patience}, read, finish);
  return result;
}

// A reader whose parent is gone must not go on: nobody would end it, or wait for what it says.
bool die_with_parent(std::int32_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  return getppid() == parent;
}

py::tuple start_guardian(std::int32_t target) {
  const live::Guardian started = live::start_guardian(target);
  if (started.pid < 0) {
    errno = started.error;
    PyErr_SetFromErrno(PyExc_OSError);
    throw py::error_already_set();
  }
  return py::make_tuple(started.pid, started.pipe);
}

}  // namespace

void register_live(py::module_& module) {
  module.def("read_process", &read_live, py::arg("pid"), py::kw_only(), py::arg("stop") = true,
             py::arg("patience_seconds") = 0.3, py::arg("sysroot") = py::none(),
             py::arg("max_frames") = 256);
  module.def("die_with_parent", &die_with_parent, py::arg("parent"));
  module.def("start_guardian", &start_guardian, py::arg("target") = 0);
}

}  // namespace pm::bind
