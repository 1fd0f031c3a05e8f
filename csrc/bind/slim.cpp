// write_slim() and slim_stream(): a core to a small one that reads the same.
#include <pybind11/stl.h>

#include <unistd.h>

#include <cerrno>
#include <functional>
#include <system_error>

#include "base/mapped_file.h"
#include "bind/everything.h"
#include "bind/register.h"
#include "bind/rows.h"
#include "bind/values.h"
#include "elfcore/fields.h"
#include "slim/head.h"
#include "slim/live.h"
#include "slim/selection.h"
#include "slim/spool.h"
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

Outcome make_slim(Core& core, const elfcore::ModuleOptions& options, int fd,
                  slim::LiveMemory* live = nullptr, std::int32_t pid = 0) {
  Outcome outcome;
  outcome.threads = core.threads().size();
  outcome.info = slim::describe_source(core);
  if (live) outcome.info.threads = slim::read_thread_names(pid);
  add_all(outcome.problems, core.problems());
  const elfcore::Modules modules(core, options);
  slim::Selection kept =
      slim::select(core, modules, [&](Core& watched) { read_everything(watched, options); });
  add_all(outcome.problems, kept.problems);
  if (live) kept.ranges = live->readable(kept.ranges);
  outcome.written = slim::write_core(core, kept.ranges, outcome.info, fd);
  return outcome;
}

py::dict outcome_row(const Outcome& outcome) {
  py::dict row = row_of(outcome.info);
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

py::dict write_slim(const std::filesystem::path& path, int fd,
                    const std::optional<std::filesystem::path>& executable,
                    const std::optional<std::filesystem::path>& sysroot) {
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

// From the memory of the process that is being dumped; nothing when that cannot be had.
std::optional<Outcome> slim_process(const slim::Head& head, std::int32_t pid, int fd,
                                    const elfcore::ModuleOptions& options, Problems& problems) {
  std::string why;
  try {
    if (const auto live = slim::LiveMemory::open(head, pid, why)) {
      return make_slim(live->core(), options, fd, live.get(), pid);
    }
  } catch (const std::system_error&) {
    throw;  // the output cannot be written: no other way would help
  } catch (const std::exception& error) {
    why = "reading the memory of process " + std::to_string(pid) + " failed: " + error.what();
    if (ftruncate(fd, 0) != 0) throw std::system_error(errno, std::generic_category());
  }
  problems.add("--pid", why + "; the core is read from the stream instead");
  return std::nullopt;
}

py::dict slim_stream(int source, const py::bytes& begin, int fd, int spool, std::uint64_t room,
                     const std::optional<std::int32_t>& pid,
                     const std::optional<std::filesystem::path>& executable,
                     const std::optional<std::filesystem::path>& sysroot) {
  const SigbusGuard guard;
  const std::string_view view = begin;
  std::optional<Outcome> outcome;
  slim::Spooled spooled;
  without_gil([&] {
    const slim::Head head = slim::read_head(source, {view.begin(), view.end()});
    Problems remarks;
    if (pid) {
      // As the process itself sees its files: it may run in a container.
      const elfcore::ModuleOptions own{executable.value_or(""),
                                       sysroot.value_or("/proc/" + std::to_string(*pid) + "/root")};
      outcome = slim_process(head, *pid, fd, own, remarks);
    }
    if (!outcome) spooled = slim::spool(head, source, spool, room);
    add_all(spooled.problems, remarks);
  });
  py::dict row;
  row["outcome"] = outcome ? py::object(outcome_row(*outcome)) : py::none();
  row["stream_bytes"] = spooled.stream_bytes;
  row["problems"] = problems(spooled.problems);
  return row;
}

}  // namespace

void register_slim(py::module_& module) {
  module.def("write_slim", &write_slim, py::arg("path"), py::arg("fd"), py::kw_only(),
             py::arg("executable") = py::none(), py::arg("sysroot") = py::none());
  module.def("slim_stream", &slim_stream, py::arg("source"), py::arg("begin"), py::arg("fd"),
             py::arg("spool"), py::arg("room"), py::kw_only(), py::arg("pid") = py::none(),
             py::arg("executable") = py::none(), py::arg("sysroot") = py::none());
}

}  // namespace pm::bind
