// CallScans: the tensors that a module takes and gives, with what scans of them found.
#pragma once

#include <Python.h>

namespace pm::bind {

// Makes the type and adds it to the module; false with a Python error if that fails.
bool add_scan_calls(PyObject* module);

}  // namespace pm::bind
