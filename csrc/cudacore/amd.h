// The GPUs of AMD in a core: a note with the state of the driver (KFD), as ROCm's runtime and
// rocgdb write it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"

namespace pm::cudacore {

struct AmdAgent {
  std::uint64_t exceptions = 0;  // bit N-1: exception N of kfd_dbg_trap_exception_code
  std::uint32_t id = 0, location = 0, vendor = 0, device = 0;
  std::uint32_t target = 0;  // 90402: gfx942
  std::uint32_t simds = 0, waves_per_simd = 0;
};

struct AmdQueue {
  std::uint64_t exceptions = 0;
  std::uint32_t id = 0, agent = 0, type = 0;
  std::uint64_t save_area = 0;  // where the registers of its waves were saved
  std::uint32_t save_area_bytes = 0;
};

struct AmdCore {
  std::uint64_t size_bytes = 0, expected_bytes = 0;
  std::uint64_t note_version = 0;
  std::uint32_t driver_major = 0, driver_minor = 0;
  std::vector<AmdAgent> agents;
  std::vector<AmdQueue> queues;
  std::vector<std::uint64_t>
      code_objects;  // addresses at which GPU code begins that is in the file
  std::uint64_t memory_bytes = 0;
  Problems problems;
};

// Throws EvidenceError for what is no ELF core with such a note.
AmdCore read_amd_core(Bytes file);

}  // namespace pm::cudacore
