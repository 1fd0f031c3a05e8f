// The kernels of the instruction set in use.
#pragma once

#include "scan/kernel.h"

namespace pm::scan {

const Kernels& kernels() noexcept;

}  // namespace pm::scan
