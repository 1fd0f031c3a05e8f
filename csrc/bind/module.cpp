// The extension module: a list. Each concern registers its functions in its own file.
#include "bind/register.h"

PYBIND11_MODULE(_native, module) {
  module.doc() = "Native readers of postmortem; _native.pyi is the manual.";
  pm::bind::register_errors(module);
  pm::bind::register_core(module);
  pm::bind::register_names(module);
  pm::bind::register_process(module);
  pm::bind::register_strace(module);
}
