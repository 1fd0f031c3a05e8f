// demangle() and build_id().
#include <pybind11/stl.h>

#include "base/demangle.h"
#include "bind/register.h"
#include "bind/values.h"
#include "elfcore/image.h"

namespace py = pybind11;

namespace pm::bind {

void register_names(py::module_& module) {
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
      [](const std::string& path) {
        std::string error;
        const auto image = elfcore::Image::open(path, error);
        return optional_text(image ? image->build_id() : std::nullopt);
      },
      py::arg("path"));
}

}  // namespace pm::bind
