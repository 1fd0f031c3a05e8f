// The kernel's own shared library, which is in no file: its ELF image lies in the core.
#pragma once

#include <cstdint>
#include <memory>

#include "elfcore/core.h"
#include "elfcore/image.h"

namespace pm::unwind {

struct Vdso {
  std::shared_ptr<const elfcore::Image> image;  // null: the core has none
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t bias = 0;

  bool contains(std::uint64_t address) const noexcept {
    return image && address >= start && address < end;
  }
  // Where AT_SYSINFO_EHDR (getauxval(3), vdso(7)) says.
  static Vdso find(const elfcore::Core& core);
};

}  // namespace pm::unwind
