#include "unwind/symbol_tables.h"

#include <algorithm>
#include <bit>

namespace pm::unwind {
namespace {

// Symbols times addresses that they cover: a crafted table in which all cover all must end.
constexpr std::uint64_t kMaxUpdates = 64'000'000;

// How far a symbol without a size reaches in .dynsym, which does not list what follows: of musl's
// assembly functions (memset, longjmp) none is longer.
constexpr std::uint64_t kMaxUnsized = 256;

constexpr std::uint8_t kFunction = 4;  // least rank of a function

// Functions before labels, then by binding. 0: not a name for code.
std::uint8_t rank_of(const Elf64_Sym& symbol) {
  const unsigned type = ELF64_ST_TYPE(symbol.st_info);
  const bool function = type == STT_FUNC || type == STT_GNU_IFUNC;
  if (!function && type != STT_NOTYPE) return 0;
  const unsigned binding = ELF64_ST_BIND(symbol.st_info);
  const std::uint8_t by_binding = binding == STB_GLOBAL || binding == STB_GNU_UNIQUE ? 3
                                  : binding == STB_WEAK                              ? 2
                                                                                     : 1;
  return static_cast<std::uint8_t>(by_binding + (function ? kFunction - 1 : 0));
}

// $x and $d of aarch64 tell code from data; .L labels are leftovers of an assembler.
bool is_name(std::string_view name) {
  return !name.empty() && name.front() != '$' && !name.starts_with(".L");
}

// Of aliases the public name: free, not __libc_free.
std::size_t underscores(std::string_view name) {
  return std::min(name.find_first_not_of('_'), name.size());
}

// Of equals the one that stands first, in the table that was read first; tables are read backwards.
bool better(const Match& a, const Match& b) {
  if (b.rank == 0) return true;
  if (a.start != b.start) return a.start > b.start;
  if (a.rank != b.rank) return a.rank > b.rank;
  const std::size_t of_a = underscores(a.name()), of_b = underscores(b.name());
  return of_a != of_b ? of_a < of_b : a.strings.data() == b.strings.data();
}

}  // namespace

SymbolSearch::SymbolSearch(std::span<const std::uint64_t> addresses)
    : addresses_(addresses),
      sized_(addresses.size()),
      nearest_(addresses.size()),
      nearest_to_(addresses.size()) {
  if (addresses.empty()) return;
  constexpr unsigned kPartsInBits = 12;
  const std::uint64_t last = addresses.back();
  const auto bits = static_cast<unsigned>(std::bit_width(last));
  part_bits_ = bits - std::min(bits, kPartsInBits);
  parts_.reserve((last >> part_bits_) + 2);
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    while (parts_.size() <= addresses[i] >> part_bits_) parts_.push_back(i);
  }
  parts_.push_back(addresses.size());
}

std::size_t SymbolSearch::first_from(std::uint64_t start) const noexcept {
  const std::size_t part = start >> part_bits_;
  const auto begin = addresses_.begin();
  const auto from = begin + static_cast<std::ptrdiff_t>(parts_[part]);
  const auto to = begin + static_cast<std::ptrdiff_t>(parts_[part + 1]);
  return static_cast<std::size_t>(std::lower_bound(from, to, start) - begin);
}

void SymbolSearch::read(const elfcore::Image& image) {
  if (addresses_.empty()) return;
  const std::vector<elfcore::ImageSection> all = image.sections();
  std::vector<Section> sections;
  sections.reserve(all.size());
  for (const elfcore::ImageSection& row : all) {
    const bool placed = (row.flags & SHF_ALLOC) && row.size <= UINT64_MAX - row.address;
    sections.push_back({row.address, placed ? row.address + row.size : row.address,
                        placed && (row.flags & SHF_EXECINSTR)});
  }
  for (const std::uint32_t type : {std::uint32_t{SHT_SYMTAB}, std::uint32_t{SHT_DYNSYM}}) {
    bool found = false;
    for (const elfcore::ImageSection& row : all) {
      if (row.type != type || row.link >= all.size() || row.size <= sizeof(Elf64_Sym)) continue;
      read_table(image, row, image.content(all[row.link]), sections, type == SHT_DYNSYM);
      found = true;
    }
    // .symtab holds what .dynsym holds; but strip -K and the like leave a few symbols there.
    if (found && complete()) return;
  }
}

void SymbolSearch::read_table(const elfcore::Image& image, const elfcore::ImageSection& table,
                              Bytes strings, std::span<const Section> sections, bool dynamic) {
  const Bytes content = image.content(table);
  const std::uint64_t last = addresses_.back();
  const std::size_t count = content.size() / sizeof(Elf64_Sym);
  // Backwards: symbols mostly ascend, so the nearest one comes early, and the rest is left at once.
  for (std::size_t i = count; i-- > 0;) {
    Elf64_Sym symbol;
    std::memcpy(&symbol, content.data() + i * sizeof symbol, sizeof symbol);
    const std::uint64_t start = symbol.st_value;
    if (start > last || symbol.st_shndx == SHN_UNDEF) continue;
    const std::uint8_t rank = rank_of(symbol);
    if (rank == 0) continue;
    std::size_t index = first_from(start);
    if (nearest_[index].rank != 0 && nearest_[index].start > start &&
        (symbol.st_size == 0 || addresses_[index] - start >= symbol.st_size)) {
      continue;
    }
    std::uint64_t section_end = UINT64_MAX;
    if (symbol.st_shndx < SHN_LORESERVE) {
      if (symbol.st_shndx >= sections.size()) continue;
      const Section& section = sections[symbol.st_shndx];
      if (!section.executable || start < section.start || start >= section.end) continue;
      section_end = section.end;
    } else if (symbol.st_shndx != SHN_XINDEX) {
      continue;  // absolute and common symbols are no code
    }
    const Match match{strings, symbol.st_name, start, rank};
    if (symbol.st_name == 0 || (rank < kFunction && !is_name(match.name()))) continue;
    if (better(match, nearest_[index])) {
      nearest_[index] = match;
      const std::uint64_t reach =
          dynamic ? std::min(section_end - start, kMaxUnsized) : section_end - start;
      nearest_to_[index] = symbol.st_size == 0 ? start + reach : 0;
    }
    const std::uint64_t room = section_end - start;
    const std::uint64_t size = std::min<std::uint64_t>(symbol.st_size, room);
    for (; index < addresses_.size() && addresses_[index] - start < size; ++index) {
      if (++updates_ > kMaxUpdates) return;
      if (better(match, sized_[index])) sized_[index] = match;
    }
  }
}

bool SymbolSearch::complete() const noexcept {
  return std::all_of(sized_.begin(), sized_.end(), [](const Match& m) { return m.rank != 0; });
}

// A symbol without a size reaches to the next one: it names an address when no other symbol starts
// in between and no sized one covers the address.
const std::vector<Match>& SymbolSearch::matches() {
  result_ = sized_;
  Match before;
  std::uint64_t reach = 0;
  for (std::size_t i = 0; i < addresses_.size(); ++i) {
    if (nearest_[i].rank != 0) {
      before = nearest_[i];
      reach = nearest_to_[i];
    }
    if (result_[i].rank == 0 && before.rank != 0 && addresses_[i] < reach) result_[i] = before;
  }
  return result_;
}

namespace {

// The slot of the global offset table that a PLT entry jumps through.
std::optional<std::uint64_t> plt_slot_x86(Bytes code, std::uint64_t address) {
  std::uint64_t at = 0;
  if (load<std::uint32_t>(code, 0) == 0xfa1e0ff3) at = 4;            // endbr64
  if (load<std::uint8_t>(code, at).value_or(0) == 0xf2) ++at;        // bnd
  if (load<std::uint16_t>(code, at) != 0x25ff) return std::nullopt;  // jmp *slot(%rip)
  const auto distance = load<std::int32_t>(code, at + 2);
  if (!distance) return std::nullopt;
  return address + at + 6 + static_cast<std::uint64_t>(std::int64_t{*distance});
}

std::optional<std::uint64_t> plt_slot_aarch64(Bytes code, std::uint64_t address) {
  std::uint64_t at = 0;
  if (load<std::uint32_t>(code, 0) == 0xd503245f) at = 4;  // bti c
  const auto adrp = load<std::uint32_t>(code, at), ldr = load<std::uint32_t>(code, at + 4);
  if (!adrp || !ldr || (*adrp & 0x9f00001f) != 0x90000010 || (*ldr & 0xffc003ff) != 0xf9400211) {
    return std::nullopt;
  }
  const std::uint32_t pages = ((*adrp >> 29) & 3) | ((*adrp >> 3) & 0x1ffffc);
  const auto distance = static_cast<std::int32_t>(pages << 11) >> 11;
  const std::uint64_t page = ((address + at) & ~std::uint64_t{0xfff}) +
                             static_cast<std::uint64_t>(std::int64_t{distance}) * 4096;
  return page + ((*ldr >> 10) & 0xfff) * std::uint64_t{8};
}

std::string_view relocated_symbol(const elfcore::Image& image,
                                  std::span<const elfcore::ImageSection> all, std::uint64_t slot) {
  for (const elfcore::ImageSection& section : all) {
    if (section.type != SHT_RELA || section.link >= all.size()) continue;
    const elfcore::ImageSection& symbols = all[section.link];
    if (symbols.link >= all.size()) continue;
    Cursor cursor(image.content(section));
    while (cursor.left() >= sizeof(Elf64_Rela)) {
      const auto row = cursor.get<Elf64_Rela>();
      if (row.r_offset != slot) continue;
      const auto symbol =
          load<Elf64_Sym>(image.content(symbols), ELF64_R_SYM(row.r_info) * sizeof(Elf64_Sym));
      if (!symbol || symbol->st_name == 0) return {};
      return c_string(clip(image.content(all[symbols.link]), symbol->st_name, 1 << 16), 0);
    }
  }
  return {};
}

}  // namespace

std::optional<std::uint64_t> plt_slot(elfcore::Machine machine, Bytes code, std::uint64_t address) {
  return machine == elfcore::Machine::x86_64 ? plt_slot_x86(code, address)
                                             : plt_slot_aarch64(code, address);
}

std::optional<std::pair<std::string, std::uint64_t>> plt_entry(const elfcore::Image& image,
                                                               std::uint64_t address) {
  const bool x86 = image.machine() == EM_X86_64;
  const std::vector<elfcore::ImageSection> all = image.sections();
  for (const elfcore::ImageSection& section : all) {
    if (!section.name.starts_with(".plt") || !(section.flags & SHF_EXECINSTR)) continue;
    if (address < section.address || address - section.address >= section.size) continue;
    // aarch64: a header of 32 bytes, then 16 or 24 each, told by where the code makes sense.
    for (std::uint64_t back = 0; back < (x86 ? 16 : 24); back += x86 ? 1 : 4) {
      if (back > address - section.address) break;
      const std::uint64_t start = address - back;
      if (x86 && start % (section.name == ".plt.got" ? 8 : 16) != 0) continue;
      const Bytes code = image.at(start);
      const auto slot = x86 ? plt_slot_x86(code, start) : plt_slot_aarch64(code, start);
      if (!slot) continue;
      const std::string_view name = relocated_symbol(image, all, *slot);
      if (name.empty()) return std::nullopt;
      return std::pair{std::string(name) + "@plt", start};
    }
  }
  return std::nullopt;
}

}  // namespace pm::unwind
