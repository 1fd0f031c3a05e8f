// demangle() and build_id().
#include <pybind11/stl.h>

#include <algorithm>

#include "base/demangle.h"
#include "bind/register.h"
#include "bind/values.h"
#include "dwarf/source_lines.h"
#include "elfcore/image.h"

namespace py = pybind11;

namespace pm::bind {

py::list place_rows(const std::vector<dwarf::SourcePlace>& places) {
  py::list rows;
  for (const dwarf::SourcePlace& place : places) {
    rows.append(py::make_tuple(text_or_none(place.function), text_or_none(place.file), place.line));
  }
  return rows;
}

namespace {

py::list source_lines(const std::filesystem::path& path,
                      const std::vector<std::uint64_t>& addresses) {
  const SigbusGuard guard;
  std::vector<std::uint64_t> sorted = addresses;
  std::vector<std::vector<dwarf::SourcePlace>> places;
  {
    const py::gil_scoped_release release;
    std::sort(sorted.begin(), sorted.end());
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
    std::string error;
    auto image = elfcore::Image::open(path, error);
    if (image) places = dwarf::source_lines(std::move(image), sorted);
  }
  py::list result;
  for (const std::uint64_t address : addresses) {
    const auto row = std::lower_bound(sorted.begin(), sorted.end(), address) - sorted.begin();
    const auto index = static_cast<std::size_t>(row);
    result.append(index < places.size() ? place_rows(places[index]) : py::list());
  }
  return result;
}

}  // namespace

void register_names(py::module_& module) {
  module.def("source_lines", &source_lines, py::arg("path"), py::arg("addresses"));
  module.def(
      "demangle",
      [](const std::vector<std::string>& names) {
        py::list result;
        for (const std::string& name : names) result.append(text(demangle(name)));
        return result;
      },
      py::arg("names"));
  module.def(
      "build_id",
      [](const std::filesystem::path& path) {
        std::string error;
        const auto image = elfcore::Image::open(path, error);
        return optional_text(image ? image->build_id() : std::nullopt);
      },
      py::arg("path"));
}

}  // namespace pm::bind
