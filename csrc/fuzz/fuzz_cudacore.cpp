// Any bytes as a core dump of GPUs, of NVIDIA and of AMD.
#include <cstdlib>

#include "cudacore/amd.h"
#include "cudacore/core.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pm::cudacore;
  try {
    const Core core = read_core({data, size}, 256);
    for (const Fault& fault : core.faults) {
      if (fault.has_thread && (fault.lanes == 0 || fault.warps > fault.lanes)) std::abort();
      for (const Frame& frame : fault.frames) {
        if (frame.code && frame.code->places.empty()) std::abort();
      }
    }
    for (const Stand& stand : core.stands) {
      if (stand.frames.empty() || stand.some.empty()) std::abort();
      if (stand.active > stand.lanes || stand.failed > stand.lanes) std::abort();
      if (stand.warps > stand.lanes || stand.blocks > stand.warps) std::abort();
    }
    if (core.focus && core.focus->shared && core.focus->shared->first.size() > 256) std::abort();
  } catch (const pm::EvidenceError&) {
  }
  try {
    const AmdCore core = read_amd_core({data, size});
    if (core.agents.size() > 4096 || core.queues.size() > 4096) std::abort();
  } catch (const pm::EvidenceError&) {
  }
  return 0;
}
