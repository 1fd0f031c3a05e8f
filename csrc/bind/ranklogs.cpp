// read_ranklog(): one call for a whole log of many ranks.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "bind/interrupt.h"
#include "bind/pull.h"
#include "bind/register.h"
#include "bind/rows.h"
#include "ranklogs/fields.h"

namespace py = pybind11;

namespace pm::bind {
namespace {

using namespace pm::ranklogs;

// Moves a descriptor behind the hole of a sparse file that it stands in.
PastHole past_hole_of(int descriptor) {
  return [descriptor]() -> std::uint64_t {
    const off_t here = ::lseek(descriptor, 0, SEEK_CUR);
    if (here < 0) return 0;
    off_t data = ::lseek(descriptor, here, SEEK_DATA);
    if (data < 0 && errno == ENXIO) data = ::lseek(descriptor, 0, SEEK_END);
    if (data >= here) return static_cast<std::uint64_t>(data - here);
    ::lseek(descriptor, here, SEEK_SET);
    return 0;
  };
}

// Reads without the GIL; Ctrl-C becomes KeyboardInterrupt within a block.
std::optional<Log> read_interruptibly(Pull& pull, const Options& options) {
  const InterruptWatch watch;
  const py::gil_scoped_release release;
  try {
    return read(pull, options);
  } catch (...) {  // also what a callable threw when it saw the signal
    if (!InterruptWatch::seen()) throw;
    return std::nullopt;
  }
}

// Rows of (text, name of its kind).
std::vector<KeepLiteral> literals_of(const std::vector<std::pair<std::string, std::string>>& rows) {
  std::vector<KeepLiteral> literals;
  for (const auto& [text, name] : rows) {
    const std::optional<Kind> kind = kind_of(name);
    if (!kind) throw py::value_error("lines are kept for nothing that is called " + name);
    literals.push_back({text, *kind});
  }
  return literals;
}

py::dict read_ranklog(const py::object& source,
                      const std::vector<std::pair<std::string, std::string>>& keep,
                      const py::object& sink, std::size_t block_bytes, std::size_t sample_bytes,
                      std::size_t kept_bytes) {
  Options options;
  options.keep = literals_of(keep);
  options.block_bytes = block_bytes;
  options.sample_bytes = sample_bytes;
  options.kept_bytes = kept_bytes;
  const py::module_ thresholds = py::module_::import("postmortem.thresholds");
  options.work_values = thresholds.attr("WORK_VALUES").cast<std::uint64_t>();
  options.work_alike = thresholds.attr("WORK_ALIKE").cast<std::uint64_t>();
  if (!sink.is_none()) {
    options.sink = [&sink](std::uint32_t label, std::string_view piece) {
      const py::gil_scoped_acquire gil;
      sink(label, py::bytes(piece.data(), piece.size()));
    };
  }
  if (py::isinstance<py::int_>(source)) options.past_hole = past_hole_of(source.cast<int>());
  Pull pull = pull_from_python(source);
  const std::optional<Log> log = read_interruptibly(pull, options);
  if (!log) {
    // Python has the signal too: its handler runs here, and says what becomes of it.
    if (PyErr_CheckSignals() == 0) PyErr_SetNone(PyExc_KeyboardInterrupt);
    throw py::error_already_set();
  }
  return row_of(*log);
}

}  // namespace

void register_ranklogs(py::module_& module) {
  using py::literals::operator""_a;
  module.def("read_ranklog", &read_ranklog, "source"_a, "keep"_a, py::kw_only(),
             "sink"_a = py::none(), "block_bytes"_a = std::size_t{1} << 20,
             "sample_bytes"_a = std::size_t{4} << 20, "kept_bytes"_a = std::size_t{256} << 20,
             "Reads one log of many ranks: who wrote how much, and the lines worth keeping.");
}

}  // namespace pm::bind
