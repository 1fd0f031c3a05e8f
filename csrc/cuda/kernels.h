// The kernels' addresses, for whoever launches them.
#pragma once

#include "cuda/record.h"

namespace pm::cuda {

// Take a Table and a Shaped.
const void* kernel_of_table();
const void* kernel_of_shaped();

}  // namespace pm::cuda
