#include "slim/loaded.h"

#include <elf.h>

#include <algorithm>
#include <unordered_set>

#include "elfcore/image.h"

namespace pm::slim {
namespace {

using elfcore::Core;
using elfcore::Memory;
using elfcore::Module;
using elfcore::Segment;

// Writable data of one segment and of all; libtorch_cpu.so has 12 MiB. Beyond that only what was
// read is kept.
constexpr std::uint64_t kData = 16u << 20, kAllData = 256u << 20;
constexpr std::uint64_t kSmall = 64u << 10;
constexpr std::uint64_t kMaxLoaded = 16'384;
// struct link_map of glibc with its private part (1,150 bytes in 2.36), which libthread_db reads.
constexpr std::uint64_t kLinkMap = 1280, kName = 4096;

class ModuleKeeper {
 public:
  ModuleKeeper(const Memory& memory, PageSet& pages)
      : memory_(memory), core_(memory.core()), pages_(pages) {}

  void keep(const Segment& segment);
  void keep_ends(const Module& module);

 private:
  void add(std::uint64_t address, std::uint64_t size);
  void keep_changed(const Segment& segment, const Module& module);

  const Memory& memory_;
  const Core& core_;
  PageSet& pages_;
  std::uint64_t left_ = kAllData;
};

void ModuleKeeper::add(std::uint64_t address, std::uint64_t size) {
  size = std::min(size, left_);
  pages_.add(address, size);
  left_ -= size;
}

// Pages of a mapping that is not writable now: relocated ones differ from the file, the others can
// be had from it by every reader.
void ModuleKeeper::keep_changed(const Segment& segment, const Module& module) {
  for (std::uint64_t at = 0; at < segment.present && left_ > 0; at += kPage) {
    const std::uint64_t address = segment.start + at;
    const Bytes here = clip(core_.dumped_at(address), 0, std::min(kPage, segment.present - at));
    const auto* const file = core_.file_at(address);
    Bytes there;
    if (module.image && file) {
      there = clip(module.image->bytes(), file->offset + (address - file->start), here.size());
    }
    if (!there.empty() && std::equal(here.begin(), here.end(), there.begin(), there.end()))
      continue;
    add(address, kPage);
  }
}

void ModuleKeeper::keep(const Segment& segment) {
  const auto* const file = core_.file_at(segment.start);
  const bool writable = (segment.flags & elfcore::kWrite) != 0;
  if (!file) {
    if (!writable) add(segment.start, std::min(segment.present, kSmall));
    return;
  }
  const Module* const module = memory_.modules().at(segment.start);
  if (!module) {
    add(segment.start, std::min(segment.present, kPage));  // what kind of file it is
    return;
  }
  if (writable) {
    add(segment.start, std::min(segment.present, kData));
  } else if (segment.present <= kSmall) {
    add(segment.start, segment.present);
  } else {
    add(segment.start, 2 * kPage);
    keep_changed(segment, *module);
  }
}

// Program headers of a module: as they stood in memory, else as the file has them.
std::vector<Elf64_Phdr> program_headers(const Core& core, const Module& module) {
  const Bytes first = core.dumped_at(module.start);
  const auto header = load<Elf64_Ehdr>(first, 0);
  if (!header || !elfcore::is_elf(first)) {
    return module.image ? module.image->program_headers() : std::vector<Elf64_Phdr>{};
  }
  std::vector<Elf64_Phdr> rows;
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(header->e_phnum, 64); ++i) {
    const auto row = load<Elf64_Phdr>(first, header->e_phoff + i * sizeof(Elf64_Phdr));
    if (row) rows.push_back(*row);
  }
  return rows;
}

// Its first pages, its notes (the build ID may stand behind the first page), and the
// zero-initialised data behind its last mapping, which the kernel may show as one with other
// memory.
void ModuleKeeper::keep_ends(const Module& module) {
  add(module.start, 2 * kPage);
  std::uint64_t end = 0;
  for (const Elf64_Phdr& row : program_headers(core_, module)) {
    if (row.p_type == PT_NOTE || row.p_type == PT_DYNAMIC) {
      add(module.bias + row.p_vaddr, std::min<std::uint64_t>(row.p_memsz, kSmall));
    }
    if (row.p_type == PT_LOAD && row.p_memsz <= UINT64_MAX - row.p_vaddr) {
      end = std::max<std::uint64_t>(end, row.p_vaddr + row.p_memsz);
    }
  }
  end = end > UINT64_MAX - module.bias ? 0 : end + module.bias;
  if (end <= module.end) return;
  add(module.end, std::min(end - module.end, kData));
}

// The main program's dynamic section, from the program headers that the kernel told of.
std::uint64_t dynamic_section(const Memory& memory) {
  const Core& core = memory.core();
  const auto headers = core.auxv(AT_PHDR), count = core.auxv(AT_PHNUM);
  if (!headers || !count) return 0;
  std::uint64_t bias = 0, dynamic = 0;
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(*count, 256); ++i) {
    const auto row = memory.get<Elf64_Phdr>(*headers + i * sizeof(Elf64_Phdr));
    if (!row) return 0;
    if (row->p_type == PT_PHDR) bias = *headers - row->p_vaddr;
    if (row->p_type == PT_DYNAMIC) dynamic = row->p_vaddr;
  }
  return dynamic ? bias + dynamic : 0;
}

// DT_DEBUG of the main program: ld.so wrote the address of its struct r_debug there.
std::uint64_t linker_state(const Memory& memory, PageSet& pages) {
  const std::uint64_t dynamic = dynamic_section(memory);
  for (std::uint64_t i = 0; dynamic != 0 && i < 512; ++i) {
    const auto row = memory.get<Elf64_Dyn>(dynamic + i * sizeof(Elf64_Dyn));
    if (!row || row->d_tag == DT_NULL) break;
    pages.add(dynamic + i * sizeof(Elf64_Dyn), sizeof(Elf64_Dyn));
    if (row->d_tag == DT_DEBUG) return row->d_un.d_ptr;
  }
  return 0;
}

}  // namespace

void keep_modules(const Memory& memory, PageSet& pages) {
  ModuleKeeper keeper(memory, pages);
  for (const Segment& segment : memory.core().segments()) keeper.keep(segment);
  for (const Module& module : memory.modules().all()) keeper.keep_ends(module);
}

void keep_link_map(const Memory& memory, PageSet& pages) {
  std::uint64_t state = linker_state(memory, pages);
  std::unordered_set<std::uint64_t> seen;
  // One per namespace of dlmopen(3), since glibc 2.35 chained by r_next (version 2).
  for (unsigned space = 0; state != 0 && space < 16; ++space) {
    pages.add(state, 64);
    std::uint64_t entry = memory.word(state + 8).value_or(0);
    while (entry != 0 && seen.size() < kMaxLoaded && seen.insert(entry).second) {
      pages.add(entry, kLinkMap);
      const std::uint64_t name = memory.word(entry + 8).value_or(0);
      if (const auto text = memory.text(name, kName)) pages.add(name, text->size() + 1);
      const std::uint64_t dynamic = memory.word(entry + 16).value_or(0);
      if (dynamic) pages.add(dynamic, 1024);
      entry = memory.word(entry + 24).value_or(0);
    }
    const bool chained = memory.get<std::int32_t>(state).value_or(1) >= 2;
    state = chained ? memory.word(state + 40).value_or(0) : 0;
    if (state != 0 && !seen.insert(state).second) break;
  }
}

}  // namespace pm::slim
