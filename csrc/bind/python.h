// The Python side of a dead process, for read_core().
#pragma once

#include <pybind11/pybind11.h>

#include "base/error.h"
#include "cpython/python.h"

namespace pm::bind {

// As cpython::read_python(), its problems put with those of the core. No Python in it: may run
// without the GIL.
cpython::PythonState read_python(const elfcore::Memory& memory, const cpython::Options& options,
                                 Problems& problems);

// A RawPython; None where no interpreter was found.
pybind11::object python_row(const cpython::PythonState& python);

}  // namespace pm::bind
