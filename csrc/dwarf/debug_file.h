// The DWARF sections of one ELF file, unpacked where they are compressed.
#pragma once

#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "elfcore/image.h"

namespace pm::dwarf {

enum class Section {
  info,
  abbrev,
  line,
  str,
  line_str,
  ranges,
  rnglists,
  addr,
  str_offsets,
  aranges,
};
inline constexpr std::size_t kSections = 10;

class DebugFile {
 public:
  explicit DebugFile(std::shared_ptr<const elfcore::Image> image);

  // The bytes of a section; empty if there is none, or if it is packed in a way that this build
  // cannot unpack, or larger than what is worth unpacking. Unpacked on first use.
  Bytes get(Section section) const;
  bool packed(Section section) const noexcept;
  // The text at an offset of a section of strings.
  std::string_view text(Section section, std::uint64_t offset) const;

 private:
  struct Part {
    Bytes bytes;
    bool packed = false;
    bool done = false;
    std::vector<std::uint8_t> unpacked;
  };
  std::shared_ptr<const elfcore::Image> image_;
  mutable std::array<Part, kSections> parts_;
};

}  // namespace pm::dwarf
