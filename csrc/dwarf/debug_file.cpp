#include "dwarf/debug_file.h"

#ifdef POSTMORTEM_ZLIB
#include <zlib.h>
#endif

namespace pm::dwarf {
namespace {

constexpr std::array<std::string_view, kSections> kNames = {
    ".debug_info",   ".debug_abbrev",   ".debug_line", ".debug_str",         ".debug_line_str",
    ".debug_ranges", ".debug_rnglists", ".debug_addr", ".debug_str_offsets", ".debug_aranges"};

// A section that unpacks to more than this would take longer than a debugger does.
[[maybe_unused]] constexpr std::uint64_t kMaxUnpacked = std::uint64_t{64} << 20;

#ifdef POSTMORTEM_ZLIB
// A compressed section (gABI, "Section Compression"): Elf64_Chdr, then a zlib stream.
std::vector<std::uint8_t> unpack(Bytes content) {
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
std::vector<std::uint8_t> unpack(Bytes) { return {}; }
#endif

}  // namespace

bool can_unpack_zlib() {
#ifdef POSTMORTEM_ZLIB
  return true;
#else
  return false;
#endif
}

DebugFile::DebugFile(std::shared_ptr<const elfcore::Image> image) : image_(std::move(image)) {
  for (const elfcore::ImageSection& row : image_->sections()) {
    for (std::size_t i = 0; i < kSections; ++i) {
      if (row.name != kNames[i] || row.type == SHT_NOBITS) continue;
      parts_[i].bytes = image_->content(row);
      parts_[i].packed = (row.flags & SHF_COMPRESSED) != 0;
    }
  }
}

Bytes DebugFile::get(Section section) const {
  Part& part = parts_[static_cast<std::size_t>(section)];
  if (part.packed && !part.done) {
    part.done = true;
    part.unpacked = unpack(part.bytes);
    part.bytes = part.unpacked;
  }
  return part.bytes;
}

bool DebugFile::packed(Section section) const noexcept {
  return parts_[static_cast<std::size_t>(section)].packed;
}

std::string_view DebugFile::text(Section section, std::uint64_t offset) const {
  return c_string(get(section), offset);
}

}  // namespace pm::dwarf
