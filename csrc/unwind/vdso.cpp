#include "unwind/vdso.h"

namespace pm::unwind {

Vdso Vdso::find(const elfcore::Core& core) {
  Vdso found;
  const auto address = core.auxv(AT_SYSINFO_EHDR);
  const elfcore::Segment* const segment = address ? core.segment_at(*address) : nullptr;
  if (!segment) return found;
  std::string error;
  auto image =
      elfcore::Image::parse(clip(core.dumped_at(*address), 0, segment->end() - *address), error);
  if (!image || image->machine() != static_cast<std::uint16_t>(core.machine())) return found;
  const Elf64_Phdr* const text = image->program_header(PT_LOAD);
  if (!text) return found;
  found.start = *address;
  found.end = segment->end();
  found.bias = *address - (text->p_vaddr - text->p_offset);
  found.image = std::move(image);
  return found;
}

}  // namespace pm::unwind
