// ScanResult: what one pass over a tensor found, as a Python object.
#pragma once

#include <Python.h>

#include "scan/scan.h"

namespace pm::bind {

// Makes the type and adds it to the module; false with a Python error if that fails.
bool add_scan_result(PyObject* module);

// A new reference, or null with a Python error. `dtype` is a static text.
PyObject* new_scan_result(const scan::Result& result, const char* dtype);

// The same for what a scan of this array gives, which is put where it stays.
PyObject* new_scan_result(const scan::Array& array, const char* dtype);

// The same for numbers that `pending` gives when it is called; takes its reference.
PyObject* new_pending_result(PyObject* pending, const char* dtype);

// METH_VARARGS: _result(dtype, row), what ScanResult.__reduce__() names. TypeError for no such row.
PyObject* result_of_row(PyObject*, PyObject* args);

// The numbers of a ScanResult; null if it is none, or if they are still on a device.
const scan::Result* values_in(PyObject* object);

// The name of the data type of a ScanResult, borrowed.
PyObject* dtype_in(PyObject* result);

// Whether a ScanResult is of a type of eight bits or less with an exponent.
bool is_narrow_float(PyObject* result);

}  // namespace pm::bind
