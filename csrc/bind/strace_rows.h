// Rows of the strace reader for Python; _native.pyi describes them.
#pragma once

#include <pybind11/pybind11.h>

#include <deque>
#include <vector>

#include "strace/log.h"

namespace pm::bind {

pybind11::dict match_row(const strace::Match& match);
// Which processes have a row: of very many those that ended badly, and the first of the others. A
// line of a log may be all that there is of one, and its row takes a hundred times as much.
std::vector<bool> listed_processes(const std::deque<strace::Process>& processes);
pybind11::dict process_row(const strace::Process& process);
pybind11::dict call_row(std::string_view name, const strace::CallCount& count);
pybind11::dict failure_row(const strace::Failure& failure);
pybind11::dict counts_row(const strace::Counts& counts);
pybind11::dict check_row(const strace::Check& check);
// Adds slow calls, connections, time-outs, folders and times.
void add_summary(const strace::Tracker& tracker, pybind11::dict& result);

}  // namespace pm::bind
