// An extension's function hands the result of a failed look-up on without a check.
#include <Python.h>

#define EXPORT extern "C" __attribute__((visibility("default"), noinline))

EXPORT PyObject* shape_of(PyObject* row) {
  PyObject* array = PyObject_GetAttrString(row, "array");  // fails: NULL
  PyErr_Clear();
  PyObject* shape = PyObject_GetAttrString(array, "shape");
  Py_XDECREF(array);
  return shape;
}

static PyObject* encode(PyObject*, PyObject* row) { return shape_of(row); }
static PyMethodDef methods[] = {{"encode", encode, METH_O, ""}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "rows", "", -1, methods};
PyMODINIT_FUNC PyInit_rows() { return PyModule_Create(&module); }
