// Compressed sections of ELF files (gABI, "Section Compression").
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"

namespace pm::elfcore {

// Whether this build was made with zlib.
bool can_unpack_zlib();

// What a section with SHF_COMPRESSED holds; empty if it is packed in a way that this build cannot
// unpack, or larger than what is worth unpacking.
std::vector<std::uint8_t> unpack_section(Bytes content);

}  // namespace pm::elfcore
