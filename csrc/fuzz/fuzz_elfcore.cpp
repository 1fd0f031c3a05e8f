// Any bytes as a core file: headers, notes, segments, modules.
#include "elfcore/core.h"
#include "elfcore/modules.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto core = pm::elfcore::Core::parse({data, size});
    // A folder that does not exist: what is fuzzed is the core, not the files of this machine.
    const pm::elfcore::Modules modules(*core, {"", "/nonexistent"});
    const pm::elfcore::Memory memory(*core, modules);
    for (const auto& thread : core->threads()) {
      memory.word(thread.registers.sp());
      memory.text(thread.registers.pc(), 64);
      core->segment_below(thread.registers.sp());
      core->segment_above(thread.registers.sp());
      core->file_at(thread.registers.pc());
    }
  } catch (const pm::EvidenceError&) {
  }
  return 0;
}
