// scan_file(): the tensors of a checkpoint, where they lie in the file.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <cmath>
#include <cstdlib>

#include "base/mapped_file.h"
#include "bind/scan_result.h"
#include "bind/scan_tensors.h"
#include "scan/place.h"
#include "scan/scan.h"

namespace py = pybind11;

namespace pm::bind {
namespace {

constexpr std::uint64_t kBatchBytes = std::uint64_t{256} << 20;  // between two words of progress

// The row (offset, dtype, shape, strides) as an array in the file; false if it is none or does not
// lie inside.
bool lay(const py::tuple& row, Bytes file, Held& held) {
  const auto offset = row[0].cast<std::uint64_t>();
  const auto shape = row[2].cast<std::vector<std::int64_t>>();
  const auto strides = row[3].cast<std::optional<std::vector<std::int64_t>>>();
  if (!name_dtype(row[1].cast<std::string>(), held)) return false;
  const auto count = scan::element_count(shape);
  if (!count || (strides && strides->size() != shape.size())) return false;
  held.lay_out(shape.data(), strides && *count != 0 ? strides->data() : nullptr, shape.size(),
               *count);
  return scan::place_in(file, offset, held.array);
}

void scan_batch(std::vector<Held>& held, const std::vector<std::size_t>& places,
                py::list& results) {
  std::vector<scan::Array> arrays;
  arrays.reserve(places.size());
  for (const std::size_t place : places) arrays.push_back(held[place].array);
  std::vector<scan::Result> found(arrays.size());
  {
    const py::gil_scoped_release release;
    scan::scan_all(arrays, found);
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    PyObject* const result = new_scan_result(found[i], held[places[i]].dtype);
    if (result == nullptr) throw py::error_already_set();
    results[places[i]] = py::reinterpret_steal<py::object>(result);
  }
}

py::tuple scan_file(const std::filesystem::path& path, const py::list& rows,
                    const py::object& progress) {
  std::string error;
  const auto file = MappedFile::open(path, error, MappedFile::Reading::from_start_to_end);
  if (!file) throw py::value_error(error);
  const SigbusGuard guard;
  py::list results(rows.size());
  std::vector<Held> held(rows.size());
  std::vector<std::size_t> batch;
  std::uint64_t bytes = 0, done = 0;
  for (std::size_t i = 0; i <= rows.size(); ++i) {
    if (!batch.empty() && (i == rows.size() || bytes >= kBatchBytes)) {
      scan_batch(held, batch, results);
      done += bytes;
      batch.clear();
      bytes = 0;
      if (!progress.is_none()) progress(done);
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    }
    if (i == rows.size()) break;
    if (!lay(rows[i].cast<py::tuple>(), file->bytes(), held[i])) {
      results[i] = py::none();
      continue;
    }
    batch.push_back(i);
    bytes += scan::bytes_of(held[i].array);
  }
  return py::make_tuple(results, guard.lost_pages());
}

}  // namespace

void register_scan_file(py::module_& module) {
  module.def("scan_file", scan_file, py::arg("path"), py::arg("rows"), py::kw_only(),
             py::arg("progress") = py::none());
}

}  // namespace pm::bind
