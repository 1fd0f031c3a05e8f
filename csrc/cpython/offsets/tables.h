// The generated tables.
#pragma once

#include <span>

#include "cpython/layout.h"

namespace pm::cpython {

// By version.
std::span<const Table> tables() noexcept;

}  // namespace pm::cpython
