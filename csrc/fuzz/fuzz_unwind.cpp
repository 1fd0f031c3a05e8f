// Any bytes as a core whose stacks are walked, the tables coming from the ELF image that it holds
// as its vdso; or as an ELF file whose tables and symbols are read.
#include <algorithm>
#include <array>
#include <optional>

#include "elfcore/core.h"
#include "elfcore/modules.h"
#include "unwind/cfi.h"
#include "unwind/debug_files.h"
#include "unwind/panic_text.h"
#include "unwind/symbol_tables.h"
#include "unwind/symbols.h"
#include "unwind/unwinder.h"

namespace {

using namespace pm;

void walk(Bytes bytes) {
  const auto core = elfcore::Core::parse(bytes);
  // A folder that does not exist: what is fuzzed is the core, not the files of this machine.
  const elfcore::Modules modules(*core, {"", "/nonexistent"});
  const elfcore::Memory memory(*core, modules);
  unwind::Unwinder unwinder(memory);
  std::vector<std::uint64_t> addresses;
  std::size_t left = 16;
  std::optional<unwind::Stack> crashed;
  for (const elfcore::ThreadState& thread : core->threads()) {
    if (left-- == 0) break;
    const unwind::Stack stack = unwinder.unwind(thread, 64);
    for (const unwind::Frame& frame : stack.frames) addresses.push_back(frame.lookup());
    if (&thread == core->crashed_thread()) crashed = stack;
  }
  unwind::Symbolizer names(memory, "/nonexistent");
  names.resolve(addresses);
  if (crashed) unwind::find_panic_text(memory, *crashed, names);
}

void read_tables(Bytes bytes) {
  std::string error;
  const auto image = elfcore::Image::parse(bytes, error);
  if (!image) return;
  unwind::FrameTables tables(*image);
  unwind::Budget budget;
  std::vector<std::uint64_t> addresses;
  for (const Elf64_Phdr& row : image->program_headers()) {
    const std::uint64_t step = std::max<std::uint64_t>(row.p_memsz / 64, 1);
    for (std::uint64_t i = 0; i < 64; ++i) addresses.push_back(row.p_vaddr + i * step);
  }
  std::sort(addresses.begin(), addresses.end());
  addresses.resize(std::min<std::size_t>(addresses.size(), 512));
  for (const std::uint64_t address : addresses) {
    if (const auto fde = tables.find(address, budget)) unwind::row_at(*fde, address, budget);
  }
  unwind::SymbolSearch search(addresses);
  search.read(*image);
  search.matches();
  for (const std::uint64_t address : addresses) unwind::plt_entry(*image, address);
  unwind::mini_debug_data(*image);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    walk({data, size});
  } catch (const EvidenceError&) {
    read_tables({data, size});
  }
  return 0;
}
