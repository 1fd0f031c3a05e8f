// What bind/module.cpp calls.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl/filesystem.h>  // paths come in as Python encodes file names

namespace pm::bind {

void register_errors(pybind11::module_& module);
void register_contained(pybind11::module_& module);
void register_core(pybind11::module_& module);
void register_cudacore(pybind11::module_& module);
void register_live(pybind11::module_& module);
void register_flight_recorder(pybind11::module_& module);
void register_names(pybind11::module_& module);
void register_process(pybind11::module_& module);
void register_ranklogs(pybind11::module_& module);
void register_signatures(pybind11::module_& module);
void register_slim(pybind11::module_& module);
void register_strace(pybind11::module_& module);
void register_strace_exports(pybind11::module_& module);

}  // namespace pm::bind
