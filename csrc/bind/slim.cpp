// write_slim(): a core to a small one that reads the same.
#include <pybind11/stl.h>

#include <cerrno>
#include <functional>
#include <system_error>

#include "base/mapped_file.h"
#include "bind/everything.h"
#include "bind/register.h"
#include "bind/values.h"
#include "slim/selection.h"
#include "slim/writer.h"

namespace py = pybind11;

namespace pm::bind {
namespace {

using elfcore::Core;

struct Outcome {
  elfcore::SlimInfo info;
  slim::Written written;
  std::size_t threads = 0;
  Problems problems;
};

void add_all(Problems& to, const Problems& from) {
  for (const Problem& row : from.rows()) to.add(row.where, row.what, row.remedy);
}

Outcome make_slim(Core& core, const elfcore::ModuleOptions& options, int fd) {
  Outcome outcome;
  outcome.threads = core.threads().size();
  outcome.info = slim::describe_source(core);
  add_all(outcome.problems, core.problems());
  const elfcore::Modules modules(core, options);
  const slim::Selection kept =
      slim::select(core, modules, [&](Core& watched) { read_everything(watched, options); });
  add_all(outcome.problems, kept.problems);
  outcome.written = slim::write_core(core, kept.ranges, outcome.info, fd);
  return outcome;
}

py::dict outcome_row(const Outcome& outcome) {
  py::dict row;
  row["source_bytes"] = outcome.info.source_bytes;
  row["source_expected_bytes"] = outcome.info.expected_bytes;
  row["lost_bytes"] = outcome.info.lost_bytes;
  row["file_bytes"] = outcome.written.file_bytes;
  row["kept_bytes"] = outcome.written.kept_bytes;
  row["pieces"] = outcome.written.pieces;
  row["threads"] = outcome.threads;
  row["problems"] = problems(outcome.problems);
  return row;
}

// Runs without the GIL; a failing system call becomes OSError.
template <class Work>
auto without_gil(Work work) {
  try {
    const py::gil_scoped_release release;
    return work();
  } catch (const std::system_error& error) {
    errno = error.code().value();
    PyErr_SetFromErrno(PyExc_OSError);
    throw py::error_already_set();
  }
}

py::dict write_slim(const std::string& path, int fd, const std::optional<std::string>& executable,
                    const std::optional<std::string>& sysroot) {
  const SigbusGuard guard;
  Outcome outcome = without_gil([&] {
    const auto core = Core::open(path);
    return make_slim(*core, {executable.value_or(""), sysroot.value_or("")}, fd);
  });
  if (guard.lost_pages() > 0) {
    outcome.problems.add("core",
                         std::to_string(guard.lost_pages()) +
                             " pages of it, or of a file that it names, could not be read and "
                             "count as zeros",
                         "was it still being written, or is the disk failing?");
  }
  return outcome_row(outcome);
}

}  // namespace

void register_slim(py::module_& module) {
  module.def("write_slim", &write_slim, py::arg("path"), py::arg("fd"), py::kw_only(),
             py::arg("executable") = py::none(), py::arg("sysroot") = py::none());
}

}  // namespace pm::bind
