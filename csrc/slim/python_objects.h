// Python's state as other readers of it want it: whole structures, where we read single fields.
#pragma once

#include "base/error.h"
#include "elfcore/modules.h"
#include "slim/pages.h"

namespace pm::slim {

// Interpreters, thread states, frames, code objects and local variables with what they contain, as
// far as pystack and py-spy print it. Does nothing where no interpreter can be read.
void keep_python(const elfcore::Memory& memory, PageSet& pages);

}  // namespace pm::slim
