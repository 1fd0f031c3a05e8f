// Values of the dead interpreter as text: what repr() would say of simple ones, nothing executed.
#pragma once

#include <cstdint>
#include <string>

#include "cpython/heap.h"

namespace pm::cpython {

// Simple builtin values as repr() writes them, cut at a bound that is shown ("..."); containers
// with their first items; all else as "<type at 0x...>".
std::string render_value(const Heap& heap, std::uint64_t object);

// str() of it: as above, but a str without quotes and up to `limit` code points of it.
std::string render_message(const Heap& heap, std::uint64_t object, std::size_t limit);

}  // namespace pm::cpython
