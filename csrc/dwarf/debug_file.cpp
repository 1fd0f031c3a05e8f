#include "dwarf/debug_file.h"

#include "elfcore/unpack.h"

namespace pm::dwarf {
namespace {

constexpr std::array<std::string_view, kSections> kNames = {
    ".debug_info",   ".debug_abbrev",   ".debug_line", ".debug_str",         ".debug_line_str",
    ".debug_ranges", ".debug_rnglists", ".debug_addr", ".debug_str_offsets", ".debug_aranges"};

}  // namespace

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
    part.unpacked = elfcore::unpack_section(part.bytes);
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
