#include "elfcore/unpack.h"

#include <elf.h>

#ifdef POSTMORTEM_ZLIB
#include <zlib.h>
#endif

namespace pm::elfcore {

#ifdef POSTMORTEM_ZLIB

// A section that unpacks to more than this would take longer than a debugger does.
constexpr std::uint64_t kMaxUnpacked = std::uint64_t{64} << 20;

bool can_unpack_zlib() { return true; }

std::vector<std::uint8_t> unpack_section(Bytes content) {
  const auto header = load<Elf64_Chdr>(content, 0);
  if (!header || header->ch_type != ELFCOMPRESS_ZLIB || header->ch_size > kMaxUnpacked) return {};
  const Bytes packed = content.subspan(sizeof(Elf64_Chdr));
  // deflate packs at most 1032 to 1: a size beyond that is a lie that costs memory.
  if (header->ch_size / 1032 > packed.size()) return {};
  std::vector<std::uint8_t> result(header->ch_size);
  uLongf size = result.size();
  if (uncompress(result.data(), &size, packed.data(), packed.size()) != Z_OK) return {};
  result.resize(size);
  return result;
}

#else

bool can_unpack_zlib() { return false; }
std::vector<std::uint8_t> unpack_section(Bytes) { return {}; }

#endif

}  // namespace pm::elfcore
