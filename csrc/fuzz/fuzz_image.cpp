// Any bytes as an ELF file on disk: headers, notes, sections, symbols.
#include <string_view>

#include "base/demangle.h"
#include "elfcore/image.h"
#include "unwind/split_function.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const pm::Bytes bytes{data, size};
  pm::elfcore::find_build_id(bytes, 4);
  pm::elfcore::find_build_id(bytes, 8);
  pm::demangle(pm::c_string(bytes, 0));
  std::string error;
  const auto image = pm::elfcore::Image::parse(bytes, error);
  if (!image) return 0;
  for (const auto& section : image->sections()) {
    image->content(section);
    pm::demangle(section.name);
  }
  image->has_debug_lines();
  // What the reader looks for, and what the seeds define.
  for (const std::string_view name : {"environ", "__abort_msg", "_PyRuntime", "answer", ""}) {
    image->symbol(name);
  }
  for (const auto& row : image->program_headers()) {
    // The first half of any code as a function whose cold part is the second.
    if (row.p_flags & PF_X) {
      pm::unwind::cold_part(*image, {row.p_vaddr, row.p_vaddr + row.p_filesz / 2});
    }
    image->at(row.p_vaddr);
    image->at(row.p_vaddr + row.p_filesz - 1);
    image->address_of(row.p_offset);
  }
  return 0;
}
