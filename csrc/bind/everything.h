// The reads of a whole report, without the report.
#pragma once

#include "elfcore/core.h"
#include "elfcore/modules.h"

namespace pm::bind {

// Reads all that read_core() would tell, local variables too. No Python in it: may run without the
// GIL.
void read_everything(elfcore::Core& core, const elfcore::ModuleOptions& options);

}  // namespace pm::bind
