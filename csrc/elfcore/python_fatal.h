// The words of a fatal Python error, which CPython writes to standard error and keeps nowhere.
#pragma once

#include <optional>
#include <string>

#include "elfcore/modules.h"

namespace pm::elfcore {

struct PythonFatal {
  std::string function;  // that found its state broken: __func__ of Py_FatalError()'s caller
  std::string message;
};

// What the crashed thread gave to _Py_FatalErrorFunc() (CPython 3.9 and later,
// Include/cpython/pyerrors.h), from the registers that its callee saved on the stack.
std::optional<PythonFatal> find_python_fatal(const Memory& memory);

}  // namespace pm::elfcore
