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
  order();
}

// Counted, not sorted: a GPU that is full has a million of them.
void Sections::order() {
  const std::size_t count = sections_.size();
  const auto kind_of = [](const Section& row) {
    return static_cast<std::size_t>(row.kind) - kFirstKind;
  };
  kind_starts_.fill(0);
  row_starts_.assign(count + 1, 0);
  for (const Section& row : sections_) {
    if (row.kind == Kind{}) continue;
    ++kind_starts_[kind_of(row) + 1];
    if (row.link < count) ++row_starts_[row.link + 1];
  }
  for (std::size_t i = 1; i < kind_starts_.size(); ++i) kind_starts_[i] += kind_starts_[i - 1];
  for (std::size_t i = 1; i <= count; ++i) row_starts_[i] += row_starts_[i - 1];
  by_kind_.resize(kind_starts_.back());
  by_row_.resize(row_starts_.back());
  auto next_of_kind = kind_starts_;
  auto next_of_row = row_starts_;
  for (std::uint32_t i = 0; i < count; ++i) {
    const Section& row = sections_[i];
    if (row.kind == Kind{}) continue;
    by_kind_[next_of_kind[kind_of(row)]++] = i;
    if (row.link < count) by_row_[next_of_row[row.link]++] = i;
  }
  const auto less = [this](std::uint32_t one, std::uint32_t other) {
    return sections_[one].info < sections_[other].info;
  };
  for (std::size_t link = 0; link < count; ++link) {
    const auto begin = by_row_.begin() + row_starts_[link];
    const auto end = by_row_.begin() + row_starts_[link + 1];
    if (!std::is_sorted(begin, end, less)) std::stable_sort(begin, end, less);
  }
}

std::span<const std::uint32_t> Sections::of(Kind kind) const noexcept {
  const std::size_t place = static_cast<std::size_t>(kind) - kFirstKind;
  return std::span(by_kind_).subspan(kind_starts_[place],
                                     kind_starts_[place + 1] - kind_starts_[place]);
}

std::span<const std::uint32_t> Sections::of_row(std::uint32_t link,
                                                std::uint32_t info) const noexcept {
  if (link >= sections_.size()) return {};
  const auto all =
      std::span(by_row_).subspan(row_starts_[link], row_starts_[link + 1] - row_starts_[link]);
  const auto less = [this](std::uint32_t index, std::uint32_t wanted) {
    return sections_[index].info < wanted;
  };
  const auto more = [this](std::uint32_t wanted, std::uint32_t index) {
    return wanted < sections_[index].info;
  };
  const auto begin = std::lower_bound(all.begin(), all.end(), info, less);
  return {begin, std::upper_bound(begin, all.end(), info, more)};
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
