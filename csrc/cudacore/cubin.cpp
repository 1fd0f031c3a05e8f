#include "cudacore/cubin.h"

#include <algorithm>

#include "base/demangle.h"
#include "dwarf/source_lines.h"

namespace pm::cudacore {
namespace {

constexpr std::string_view kTextPrefix = ".text.";
constexpr std::size_t kMaxName = 1 << 16;

// A device function that was not inlined is "$KERNEL$FUNCTION" in the kernel that calls it.
std::string_view own_name(std::string_view symbol) {
  if (!symbol.starts_with('$')) return symbol;
  const std::size_t last = symbol.rfind('$');
  return last + 1 < symbol.size() ? symbol.substr(last + 1) : symbol;
}

struct Best {
  std::uint64_t start = 0;
  std::string_view name;
};

}  // namespace

std::optional<Cubin> Cubin::parse(Bytes bytes) {
  std::string error;
  Cubin cubin;
  cubin.image_ = elfcore::Image::parse(bytes, error);
  if (!cubin.image_) return std::nullopt;
  const auto sections = cubin.image_->sections();
  for (std::uint32_t i = 0; i < sections.size(); ++i) {
    const elfcore::ImageSection& row = sections[i];
    if (row.type == SHT_SYMTAB) cubin.symbol_bytes_ += cubin.image_->content(row).size();
    if (row.name == ".debug_line" && row.size > 0) cubin.has_lines_ = true;
    if (!(row.flags & SHF_EXECINSTR) || row.size == 0 || row.size > UINT64_MAX - row.address) {
      continue;
    }
    const std::string_view kernel =
        row.name.starts_with(kTextPrefix) ? row.name.substr(kTextPrefix.size()) : "";
    cubin.code_.push_back({row.address, row.address + row.size, i, kernel});
  }
  std::sort(cubin.code_.begin(), cubin.code_.end(),
            [](const Code& a, const Code& b) { return a.start < b.start; });
  return cubin;
}

const Cubin::Code* Cubin::code_at(std::uint64_t address) const noexcept {
  const auto after =
      std::upper_bound(code_.begin(), code_.end(), address,
                       [](std::uint64_t wanted, const Code& code) { return wanted < code.start; });
  if (after == code_.begin()) return nullptr;
  const Code& code = *std::prev(after);
  return address < code.end ? &code : nullptr;
}

bool Cubin::covers(std::uint64_t address) const noexcept { return code_at(address) != nullptr; }

std::vector<std::optional<CodePlace>> Cubin::find(std::span<const std::uint64_t> addresses) const {
  std::vector<std::optional<CodePlace>> result(addresses.size());
  std::vector<Best> best(addresses.size());
  std::vector<const Code*> codes(addresses.size());
  std::vector<std::uint32_t> wanted;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    codes[i] = code_at(addresses[i]);
    if (!codes[i]) continue;
    best[i] = {codes[i]->start, codes[i]->kernel};
    if (wanted.empty() || wanted.back() != codes[i]->index) wanted.push_back(codes[i]->index);
  }
  if (wanted.empty()) return result;
  const auto sections = image_->sections();
  for (const elfcore::ImageSection& table : sections) {
    if (table.type != SHT_SYMTAB || table.link >= sections.size()) continue;
    const Bytes strings = image_->content(sections[table.link]);
    Cursor cursor(image_->content(table));
    while (cursor.left() >= sizeof(Elf64_Sym)) {
      const auto symbol = cursor.get<Elf64_Sym>();
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx >= sections.size()) continue;
      if (!std::binary_search(wanted.begin(), wanted.end(), symbol.st_shndx)) continue;
      // Values are addresses in a relocated image, and offsets in one that is not.
      const std::uint64_t base = sections[symbol.st_shndx].address;
      const std::uint64_t start =
          symbol.st_value >= base ? symbol.st_value : base + symbol.st_value;
      for (auto at = std::lower_bound(addresses.begin(), addresses.end(), start);
           at != addresses.end(); ++at) {
        const auto i = static_cast<std::size_t>(at - addresses.begin());
        if (symbol.st_size != 0 && *at - start >= symbol.st_size) break;
        if (!codes[i] || codes[i]->index != symbol.st_shndx) continue;
        if (start < best[i].start) continue;
        const auto name = c_string(clip(strings, symbol.st_name, kMaxName), 0);
        if (!name.empty()) best[i] = {start, name};
      }
    }
    break;  // gABI allows one, and thousands over the same bytes never end
  }
  const auto lines = has_lines_ ? dwarf::source_lines(image_, addresses)
                                : std::vector<std::vector<dwarf::SourcePlace>>(addresses.size());
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    if (!codes[i]) continue;
    CodePlace place;
    place.symbol = own_name(best[i].name);
    place.offset = addresses[i] - best[i].start;
    for (const dwarf::SourcePlace& at : lines[i]) {
      place.places.push_back({at.function, at.file, at.line, true});
    }
    if (place.places.empty()) place.places.emplace_back();
    place.places.back().inlined = false;
    if (place.places.back().function.empty()) {
      place.places.back().function = demangle(place.symbol);
    }
    result[i] = std::move(place);
  }
  return result;
}

}  // namespace pm::cudacore
