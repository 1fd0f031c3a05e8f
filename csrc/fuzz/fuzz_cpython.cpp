// Any bytes as the core of a Python process; mutated real cores are what finds something.
#include "cpython/python.h"
#include "elfcore/core.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto core = pm::elfcore::Core::parse({data, size});
    // A folder that does not exist: what is fuzzed is the core, not the files of this machine.
    const pm::elfcore::Modules modules(*core, {"", "/nonexistent"});
    const pm::elfcore::Memory memory(*core, modules);
    pm::cpython::Options options;
    options.locals = true;
    pm::cpython::read_python(memory, options);
  } catch (const pm::EvidenceError&) {
  }
  return 0;
}
