// The head of a core that comes as a stream: everything before the memory.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "elfcore/core.h"

namespace pm::slim {

// Reads on until `size` bytes are there; false: the stream ended or failed before. Interrupted and
// short reads are no end.
bool fill(int fd, std::vector<std::uint8_t>& bytes, std::uint64_t size);

struct Head {
  std::vector<std::uint8_t> bytes;      // as they came
  std::unique_ptr<elfcore::Core> core;  // over `bytes`; of its memory nothing is there
  std::uint64_t expected_bytes = 0;     // of the whole stream
  bool notes_late = false;              // they stand behind memory, and are not in `bytes`
};

// `bytes` is what was read of the stream before. The kernel writes ELF header, program headers and
// notes first (elf_core_dump in fs/binfmt_elf.c), gdb too. Throws EvidenceError when the stream is
// no core that can be read at all.
Head read_head(int fd, std::vector<std::uint8_t> bytes);

}  // namespace pm::slim
