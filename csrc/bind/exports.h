// What takes every call of a log while it is read, as Python holds it.
#pragma once

#include <pybind11/pybind11.h>

#include <vector>

#include "strace/feed.h"

namespace pm::bind {

// The sinks in a list of exports. They live as long as the list does.
std::vector<strace::Sink*> sinks_of(const pybind11::list& exports);

// What tells a callable of command lines; nothing for None.
strace::Learn learn_of(const pybind11::object& learn);

}  // namespace pm::bind
