// ScanResult: what one pass over a tensor found, as a Python object.
#pragma once

#include <Python.h>

#include "scan/scan.h"

namespace pm::bind {

// Makes the type and adds it to the module; false with a Python error if that fails.
bool add_scan_result(PyObject* module);

// A new reference, or null with a Python error. `dtype` is a static text.
PyObject* new_scan_result(const scan::Result& result, const char* dtype);

// The same for numbers that `pending` gives when it is called; takes its reference.
PyObject* new_pending_result(PyObject* pending, const char* dtype);

}  // namespace pm::bind
