// Records of a flight file, packed into its mapped ring.
#pragma once

#include <Python.h>

namespace pm::bind {

// METH_FASTCALL: write_records(ring, first, capacity, written, front, names, pairs, begin, end).
PyObject* write_records(PyObject*, PyObject* const* args, Py_ssize_t count);

}  // namespace pm::bind
