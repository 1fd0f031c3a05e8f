// All that is read of a core or of a live process, before it becomes Python objects.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <optional>
#include <vector>

#include "bind/process.h"
#include "bind/stacks.h"
#include "cpython/python.h"
#include "elfcore/core.h"
#include "elfcore/modules.h"
#include "locks/futex.h"

namespace pm::bind {

struct Findings {
  std::unique_ptr<elfcore::Modules> modules;
  std::unique_ptr<elfcore::Memory> memory;
  Stacks stacks;
  cpython::PythonState python;
  std::vector<bool> debug_lines;  // by module
  std::vector<locks::FutexWait> waits;
  ProcessFindings process;
};

struct Wanted {
  elfcore::ModuleOptions modules;
  bool stacks = true;
  std::size_t max_frames = 512;
  std::optional<cpython::Options> python;
};

// Reads everything; needs no GIL. Afterwards no memory of the process is looked at again.
void read_findings(elfcore::Core& core, const Wanted& wanted, Findings& found);

// One RawCore.
pybind11::dict findings_row(const elfcore::Core& core, const Findings& found);

}  // namespace pm::bind
