#include "cudacore/sections.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>

namespace pm::cudacore {
namespace {

constexpr std::uint32_t kFirstKind = static_cast<std::uint32_t>(Kind::managed_memory);
constexpr std::uint32_t kLastKind = static_cast<std::uint32_t>(Kind::convergence_barriers);
constexpr std::size_t kMaxText = 4096;
// A GPU that is full has a million sections: registers, predicates and calls of each lane.
constexpr std::uint64_t kMaxSections = 64'000'000;

// Rows of the first drivers, where a section does not say how long one is.
std::uint64_t first_row_size(Kind kind) {
  switch (kind) {
    case Kind::devices:
      return 72;
    case Kind::contexts:
      return 40;
    case Kind::modules:
    case Kind::sms:
      return 8;
    case Kind::grids:
      return 104;
    case Kind::blocks:
    case Kind::backtrace:
      return 24;
    case Kind::warps:
    case Kind::metadata:
      return 32;
    case Kind::lanes:
      return 48;
    case Kind::constant_banks:
      return 16;
    default:
      return 4;
  }
}

}  // namespace

Sections::Sections(Bytes file, Problems& problems) : file_(file) {
  const auto header = load<Elf64_Ehdr>(file, 0);
  if (!header || as_text(clip(file, 0, SELFMAG)) != ELFMAG ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
      header->e_type != ET_CORE || header->e_machine != EM_CUDA) {
    throw EvidenceError("not a core of a CUDA GPU");
  }
  const auto first = load<Elf64_Shdr>(file, header->e_shoff);
  if (header->e_shoff == 0 || header->e_shentsize != sizeof(Elf64_Shdr)) {
    throw EvidenceError("a core of a CUDA GPU without section headers", header->e_shoff);
  }
  if (!first) {
    throw EvidenceError("a core of a CUDA GPU that is cut: its section headers begin at " +
                            std::to_string(header->e_shoff) + ", and " +
                            std::to_string(file.size()) + " bytes are there",
                        file.size());
  }
  const std::uint64_t named = header->e_shnum != 0 ? header->e_shnum : first->sh_size;
  const std::uint64_t there = (file.size() - header->e_shoff) / sizeof(Elf64_Shdr);
  const std::uint64_t count = std::min({named, there, kMaxSections});
  if (count < named) {
    problems.add("section headers",
                 "of " + std::to_string(named) + ", " + std::to_string(count) + " are there",
                 "copy the dump again if the original is whole");
  }
  expected_ = header->e_shoff;
  if (named <= kMaxSections) expected_ += named * sizeof(Elf64_Shdr);
  const std::uint64_t names_at =
      header->e_shstrndx == SHN_XINDEX ? first->sh_link : header->e_shstrndx;
  sections_.reserve(count);
  Bytes names;
  if (const auto row = names_at < count
                           ? load<Elf64_Shdr>(file, header->e_shoff + names_at * sizeof(Elf64_Shdr))
                           : std::nullopt) {
    names = clip(file, row->sh_offset, row->sh_size);
  }
  std::uint64_t cut = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto row = *load<Elf64_Shdr>(file, header->e_shoff + i * sizeof(Elf64_Shdr));
    if (row.sh_type == SHT_STRTAB && strings_.empty() &&
        c_string(clip(names, row.sh_name, 16), 0) == ".strtab") {
      strings_ = clip(file, row.sh_offset, row.sh_size);
    }
    const bool ours = row.sh_type >= kFirstKind && row.sh_type <= kLastKind;
    const bool sane = row.sh_offset <= UINT64_MAX - row.sh_size;
    if (ours && sane) {
      expected_ = std::max(expected_, row.sh_offset + row.sh_size);
      cut += row.sh_offset + row.sh_size > file.size();
    }
    sections_.push_back({static_cast<Kind>(ours ? row.sh_type : 0), row.sh_link, row.sh_info,
                         row.sh_addr, row.sh_offset, sane ? row.sh_size : 0, row.sh_entsize});
  }
  if (strings_.empty()) strings_ = names;
  if (cut > 0) {
    problems.add("sections",
                 std::to_string(cut) + " of " + std::to_string(count) +
                     " reach beyond the end of the file and are read as far as they are there",
                 "copy the dump again if the original is whole");
  }
  for (std::uint32_t i = 0; i < sections_.size(); ++i) {
    if (sections_[i].kind == Kind{}) continue;
    by_kind_.push_back(i);
    if (sections_[i].link != 0 && sections_[i].link < sections_.size()) by_row_.push_back(i);
  }
  const auto in_order = [this](auto key) {
    return [this, key](std::uint32_t a, std::uint32_t b) {
      return key(sections_[a]) < key(sections_[b]);
    };
  };
  std::stable_sort(by_kind_.begin(), by_kind_.end(),
                   in_order([](const Section& s) { return s.kind; }));
  const auto by_place =
      in_order([](const Section& s) { return std::uint64_t{s.link} << 32 | s.info; });
  // Drivers write them in the order of the tables, mostly.
  if (!std::is_sorted(by_row_.begin(), by_row_.end(), by_place)) {
    std::stable_sort(by_row_.begin(), by_row_.end(), by_place);
  }
}

std::span<const std::uint32_t> Sections::of(Kind kind) const noexcept {
  const auto less = [this](std::uint32_t index, Kind wanted) {
    return sections_[index].kind < wanted;
  };
  const auto more = [this](Kind wanted, std::uint32_t index) {
    return wanted < sections_[index].kind;
  };
  const auto begin = std::lower_bound(by_kind_.begin(), by_kind_.end(), kind, less);
  return {begin, std::upper_bound(begin, by_kind_.end(), kind, more)};
}

std::span<const std::uint32_t> Sections::of_row(std::uint32_t link,
                                                std::uint32_t info) const noexcept {
  const auto place = std::pair{link, info};
  const auto less = [this](std::uint32_t index, const auto& wanted) {
    return std::pair{sections_[index].link, sections_[index].info} < wanted;
  };
  const auto more = [this](const auto& wanted, std::uint32_t index) {
    return wanted < std::pair{sections_[index].link, sections_[index].info};
  };
  const auto begin = std::lower_bound(by_row_.begin(), by_row_.end(), place, less);
  return {begin, std::upper_bound(begin, by_row_.end(), place, more)};
}

std::optional<std::uint32_t> Sections::table(std::uint32_t link, std::uint32_t info,
                                             Kind kind) const noexcept {
  for (const std::uint32_t index : of_row(link, info)) {
    if (sections_[index].kind == kind) return index;
  }
  return std::nullopt;
}

const Section* Sections::only(std::uint32_t link, std::uint32_t info, Kind kind) const noexcept {
  const auto found = table(link, info, kind);
  return found ? &sections_[*found] : nullptr;
}

Bytes Sections::content(const Section& section) const noexcept {
  return clip(file_, section.offset, section.size);
}

std::uint64_t Sections::row_size(const Section& section) const noexcept {
  return section.row_size != 0 ? section.row_size : first_row_size(section.kind);
}

std::uint32_t Sections::rows(std::uint32_t table, std::uint32_t limit) const noexcept {
  const Section& section = sections_[table];
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(content(section).size() / row_size(section), limit));
}

Row Sections::row(std::uint32_t table, std::uint32_t index) const noexcept {
  const Section& section = sections_[table];
  const std::uint64_t size = row_size(section);
  return Row(clip(content(section), index * size, size));
}

std::string_view Sections::text(std::uint64_t offset) const noexcept {
  if (offset == 0) return {};
  return c_string(clip(strings_, offset, kMaxText), 0);
}

}  // namespace pm::cudacore
