// Any bytes as an ELF file with DWARF: source lines of the addresses that it has symbols for, and
// of some that it has not.
#include <algorithm>
#include <vector>

#include "dwarf/source_lines.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string error;
  const auto image = pm::elfcore::Image::parse({data, size}, error);
  if (!image) return 0;
  std::vector<std::uint64_t> addresses = {0, 1, 0x401000, ~std::uint64_t{0}};
  for (const auto& row : image->program_headers()) {
    if (row.p_type != PT_LOAD || !(row.p_flags & PF_X)) continue;
    const std::uint64_t step = std::max<std::uint64_t>(row.p_filesz / 64, 1);
    for (std::uint64_t i = 0; i < 64; ++i) addresses.push_back(row.p_vaddr + i * step);
  }
  std::sort(addresses.begin(), addresses.end());
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
  pm::dwarf::source_lines(image, addresses);
  return 0;
}
