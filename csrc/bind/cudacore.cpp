// read_cuda_core(), read_amd_core(): core dumps of GPUs.
#include "base/mapped_file.h"
#include "bind/register.h"
#include "bind/rows.h"
#include "cudacore/fields.h"

namespace py = pybind11;

namespace pm::bind {
namespace {

// What `read` makes of a file's bytes, without the GIL; pages that could not be read count as
// zeros.
template <class Read>
py::dict row_of_file(const std::filesystem::path& path, MappedFile::Reading reading,
                     const Read& read) {
  std::string error;
  const auto core = [&] {
    const py::gil_scoped_release release;
    const auto file = MappedFile::open(path, error, reading);
    if (!file) throw EvidenceError(error);
    const SigbusGuard guard;
    auto made = read(file->bytes());
    if (guard.lost_pages() > 0) {
      made.problems.add("file", "some of its pages could not be read and count as zeros",
                        "copy the dump to a local disk");
    }
    return made;
  }();
  return row_of(core);
}

py::dict read_cuda_core(const std::filesystem::path& path, std::uint64_t memory_bytes) {
  return row_of_file(path, MappedFile::Reading::from_start_to_end,
                     [&](Bytes file) { return cudacore::read_core(file, memory_bytes); });
}

py::dict read_amd_core(const std::filesystem::path& path) {
  return row_of_file(path, MappedFile::Reading::here_and_there, cudacore::read_amd_core);
}

}  // namespace

void register_cudacore(py::module_& module) {
  using py::literals::operator""_a;
  module.def("read_cuda_core", &read_cuda_core, "path"_a, py::kw_only(), "memory_bytes"_a = 0,
             "Reads a core dump of CUDA GPUs; memory_bytes: of the shared and local memory of the "
             "thread that failed.");
  module.def("read_amd_core", &read_amd_core, "path"_a, "Reads the state of AMD's GPUs in a core.");
}

}  // namespace pm::bind
