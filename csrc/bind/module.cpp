// The extension module: a list. Each concern registers its functions in its own file.
#include "bind/register.h"
#include "elfcore/unpack.h"
#include "unwind/debug_files.h"

PYBIND11_MODULE(_native, module) {
  module.doc() = "Native readers of postmortem; _native.pyi is the manual.";
  pybind11::dict unpacks;
  unpacks["lzma"] = pm::unwind::can_unpack_lzma();
  unpacks["zlib"] = pm::elfcore::can_unpack_zlib();
  module.attr("unpacks") = unpacks;
  pm::bind::register_errors(module);
  pm::bind::register_contained(module);
  pm::bind::register_core(module);
  pm::bind::register_cudacore(module);
  pm::bind::register_live(module);
  pm::bind::register_flight_recorder(module);
  pm::bind::register_names(module);
  pm::bind::register_process(module);
  pm::bind::register_ranklogs(module);
  pm::bind::register_signatures(module);
  pm::bind::register_slim(module);
  pm::bind::register_strace(module);
  pm::bind::register_strace_exports(module);
}
