// Any bytes as a core file: headers, notes, segments, modules, memory.
#include <array>
#include <cstdlib>

#include "elfcore/core.h"
#include "elfcore/modules.h"

namespace {

using pm::elfcore::Core;

// What callers rely on, whatever the file says.
void check(bool holds) {
  if (!holds) std::abort();
}

void check_segments(const Core& core) {
  std::uint64_t covered = 0;
  for (const auto& segment : core.segments()) {
    check(segment.start >= covered && segment.end() >= segment.start);
    check(segment.present <= segment.dumped && segment.dumped <= segment.size);
    check(core.segment_at(segment.start) == &segment);
    covered = segment.end();
  }
  for (const auto& piece : core.pieces()) {
    check(piece.present == 0 || piece.offset + piece.present <= core.bytes().size());
    check(core.segment_at(piece.start) != nullptr);
  }
}

void look_up(const Core& core, const pm::elfcore::Memory& memory, std::uint64_t address) {
  std::array<std::uint8_t, 40> buffer;
  memory.read(address, buffer);
  memory.word(address);
  memory.text(address, 64);
  core.file_at(address);
  const auto* const at = core.segment_at(address);
  const auto* const below = core.segment_below(address);
  const auto* const above = core.segment_above(address);
  check(!at || at->contains(address));
  check(!below || below->end() <= address);
  check(!above || above->start > address);
  check(core.dumped_at(address).size() <= core.bytes().size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto core = Core::parse({data, size});
    // A folder that does not exist: what is fuzzed is the core, not the files of this machine.
    const pm::elfcore::Modules modules(*core, {"", "/nonexistent"});
    const pm::elfcore::Memory memory(*core, modules);
    check_segments(*core);
    for (const std::uint64_t address : {std::uint64_t{0}, UINT64_MAX, UINT64_MAX - 7}) {
      look_up(*core, memory, address);
    }
    for (const auto& thread : core->threads()) {
      look_up(*core, memory, thread.registers.sp());
      look_up(*core, memory, thread.registers.pc());
    }
    for (const auto& segment : core->segments()) {
      look_up(*core, memory, segment.end() - 1);
      look_up(*core, memory, segment.end());
    }
    for (const auto& module : modules.all()) {
      check(module.end > module.start);
      look_up(*core, memory, module.start);
    }
    for (std::uint64_t type = 0; type < 64; ++type) core->auxv(type);
    core->crashed_thread();
  } catch (const pm::EvidenceError&) {
  }
  return 0;
}
