// The parts of stacks, and what they point to, that readers of a core look at.
#pragma once

#include "elfcore/modules.h"
#include "slim/pages.h"

namespace pm::slim {

// Memory from each thread's stack pointer to the end of its stack, its thread-local storage, and
// what words near the top of the stack and in registers point to.
void keep_stacks(const elfcore::Memory& memory, PageSet& pages);

}  // namespace pm::slim
