// Bytes of a log, from a descriptor or from Python.
#pragma once

#include <pybind11/pybind11.h>

#include <functional>

namespace pm::bind {

// Writes up to `size` bytes to `to`; 0 is the end.
using Pull = std::function<std::size_t(char* to, std::size_t size)>;

// Reads from a descriptor (an int), or from a callable that gives the next bytes or none at the
// end. Called without the GIL; throws EvidenceError if it cannot be read on, Interrupted after
// Ctrl-C.
Pull pull_from_python(const pybind11::handle& source);

}  // namespace pm::bind
