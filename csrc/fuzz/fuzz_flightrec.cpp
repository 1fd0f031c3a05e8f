// Any bytes as a pickled dump of the flight recorder, within small limits.
#include <cstdlib>

#include "base/error.h"
#include "flightrec/dump.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pm::flightrec;
  try {
    const Dump dump = read_dump({data, size}, {.opcodes = 1 << 16, .memory_bytes = 1 << 24});
    for (const Call& call : dump.calls) {
      if (call.shape >= dump.shapes.size()) std::abort();
    }
    for (const Shape& shape : dump.shapes) {
      if (shape.input_sizes >= dump.sizes.size() || shape.output_sizes >= dump.sizes.size() ||
          shape.dtypes >= dump.dtypes.size() || shape.stack >= dump.stacks.size()) {
        std::abort();
      }
    }
    for (const auto& stack : dump.stacks) {
      for (const std::uint32_t place : stack) {
        if (place >= dump.frames.size()) std::abort();
      }
    }
  } catch (const pm::EvidenceError&) {
  }
  return 0;
}
