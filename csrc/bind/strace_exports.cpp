// Exports: sinks in capsules, made before a log is read, given to read_strace(), closed behind it.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "bind/exports.h"
#include "bind/register.h"
#include "bind/values.h"
#include "strace/call_writer.h"
#include "strace/columns.h"
#include "strace/folded.h"
#include "strace/timeline.h"

namespace py = pybind11;

namespace pm::bind {
namespace {

using namespace pm::strace;

constexpr const char* kExport = "postmortem export";

py::capsule held(std::unique_ptr<Sink> sink) {
  py::capsule capsule(static_cast<void*>(sink.get()), kExport, [](PyObject* object) {
    delete static_cast<Sink*>(PyCapsule_GetPointer(object, kExport));
  });
  (void)sink.release();
  return capsule;
}

// Python's answers are asked for while the log is read, without the GIL.
Mask mask_of(const py::object& mask) {
  if (mask.is_none()) return nullptr;
  return [mask](std::string_view value) {
    const py::gil_scoped_acquire gil;
    const py::object answer = mask(text(value));
    const py::bytes encoded = answer.attr("encode")("utf-8", "surrogateescape");
    return std::string(encoded);
  };
}

Timeline::Name name_of(const py::function& name) {
  return [name](const std::vector<std::string>& argv) {
    const py::gil_scoped_acquire gil;
    const py::bytes encoded = name(texts(argv)).attr("encode")("utf-8", "surrogateescape");
    return std::string(encoded);
  };
}

Timeline::Words words_of(const py::function& words) {
  return [words](const std::vector<std::string>& argv) {
    const py::gil_scoped_acquire gil;
    std::vector<std::string> masked;
    for (const py::handle word : words(texts(argv))) {
      const py::bytes encoded = word.attr("encode")("utf-8", "surrogateescape");
      masked.emplace_back(std::string(encoded));
    }
    return masked;
  };
}

void register_row() {
  static const bool once = [] {
    PYBIND11_NUMPY_DTYPE_EX(Row, start_ns, "start_ns", duration_ns, "duration_ns", result, "result",
                            bytes, "bytes", line, "line", began_line, "began_line", pid, "pid", fd,
                            "fd", file, "file", target, "target", syscall, "syscall", errno_,
                            "errno", kind, "kind", source, "source", flags, "flags");
    return true;
  }();
  (void)once;
}

// The rows as an array that owns them: nothing is copied.
py::dict tables_of(Columns& columns) {
  register_row();
  auto* const rows = new Rows(columns.take_rows());
  const py::capsule owner(rows, [](void* held) { delete static_cast<Rows*>(held); });
  py::array array(py::dtype::of<Row>(), {rows->size()}, {sizeof(Row)}, rows->data(), owner);
  array.attr("flags").attr("writeable") = false;
  py::dict tables;
  tables["rows"] = array;
  tables["files"] = texts(columns.files());
  tables["targets"] = texts(columns.targets());
  tables["errnos"] = texts(columns.errors());
  tables["syscalls"] = texts(columns.syscalls());
  return tables;
}

py::capsule export_columns() { return held(std::make_unique<Columns>(nullptr)); }

py::capsule export_batches(const py::function& take, std::size_t batch, const py::object& mask) {
  return held(std::make_unique<Columns>(mask_of(mask), batch, [take](Columns& columns) {
    const py::gil_scoped_acquire gil;
    take(tables_of(columns));
  }));
}

py::capsule export_calls(int descriptor, const std::string& form, const py::object& mask,
                         bool texts_too) {
  const CallForm kind = form == "csv" ? CallForm::csv : CallForm::ndjson;
  return held(std::make_unique<CallWriter>(descriptor, kind, mask_of(mask), texts_too));
}

py::capsule export_folded(int descriptor, const py::object& mask, const py::function& name) {
  return held(std::make_unique<Folded>(descriptor, mask_of(mask), name_of(name)));
}

py::capsule export_timeline(int descriptor, const py::object& mask, const py::function& name,
                            const py::function& words, bool all_calls, std::int64_t shortest_ns,
                            const std::vector<std::string>& quiet) {
  TimelineOptions options;
  options.all = all_calls;
  options.shortest = shortest_ns;
  options.quiet.insert(quiet.begin(), quiet.end());
  return held(std::make_unique<Timeline>(descriptor, mask_of(mask), name_of(name), words_of(words),
                                         std::move(options)));
}

Sink* sink_of(const py::handle& capsule) {
  void* const sink = PyCapsule_GetPointer(capsule.ptr(), kExport);
  if (!sink) throw py::error_already_set();
  return static_cast<Sink*>(sink);
}

py::dict close_export(const py::object& capsule) {
  Sink* const sink = sink_of(capsule);
  {
    const py::gil_scoped_release release;
    sink->close();
  }
  py::dict row;
  if (auto* const columns = dynamic_cast<Columns*>(sink)) {
    row = tables_of(*columns);
  } else if (auto* const writer = dynamic_cast<CallWriter*>(sink)) {
    row["calls"] = writer->calls();
  } else if (auto* const folded = dynamic_cast<Folded*>(sink)) {
    row["calls"] = folded->calls();
    row["stacks"] = folded->stacks();
    row["timed"] = folded->timed();
  } else if (auto* const timeline = dynamic_cast<Timeline*>(sink)) {
    const Timeline::Counts& counts = timeline->counts();
    row["calls"] = counts.calls;
    row["written"] = counts.written;
    row["untimed"] = counts.untimed;
    row["without_duration"] = counts.without_duration;
    row["clocks"] = texts(timeline->clocks());
    row["head"] = py::bytes(timeline->head());
  }
  return row;
}

}  // namespace

std::vector<Sink*> sinks_of(const py::list& exports) {
  std::vector<Sink*> sinks;
  for (const py::handle capsule : exports) sinks.push_back(sink_of(capsule));
  return sinks;
}

Learn learn_of(const py::object& learn) {
  if (learn.is_none()) return nullptr;
  return [learn](const std::vector<std::string>& argv) {
    const py::gil_scoped_acquire gil;
    learn(texts(argv));
  };
}

void register_strace_exports(py::module_& module) {
  module.def("export_columns", &export_columns);
  module.def("export_batches", &export_batches, py::arg("take"), py::kw_only(), py::arg("batch"),
             py::arg("mask") = py::none());
  module.def("export_calls", &export_calls, py::arg("descriptor"), py::kw_only(), py::arg("form"),
             py::arg("mask") = py::none(), py::arg("texts") = false);
  module.def("export_folded", &export_folded, py::arg("descriptor"), py::kw_only(),
             py::arg("mask") = py::none(), py::arg("name"));
  module.def("export_timeline", &export_timeline, py::arg("descriptor"), py::kw_only(),
             py::arg("mask") = py::none(), py::arg("name"), py::arg("words"),
             py::arg("all_calls") = false, py::arg("shortest_ns") = 1'000'000,
             py::arg("quiet") = std::vector<std::string>{});
  module.def("close_export", &close_export, py::arg("export_"));
}

}  // namespace pm::bind
