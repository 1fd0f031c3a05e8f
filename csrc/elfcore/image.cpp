#include "elfcore/image.h"

#include <algorithm>

#include "base/underway.h"

namespace pm::elfcore {
namespace {

constexpr std::size_t kMaxProgramHeaders = 4096;
constexpr std::size_t kMaxSections = 65536;
constexpr std::size_t kMaxSectionName = 256;

// Whether the string at `offset` is `name`. Looks at no more bytes than that takes: in a made-up
// string table without NULs a search for the end would cost the whole file for every symbol.
bool is_named(Bytes strings, std::uint64_t offset, std::string_view name) {
  const auto text = exact(strings, offset, name.size() + 1);
  return text && text->back() == 0 && as_text(text->first(name.size())) == name;
}

}  // namespace

std::optional<std::string> find_build_id(Bytes notes, std::uint64_t alignment) {
  const std::uint64_t align = alignment == 8 ? 8 : 4;
  constexpr std::uint64_t kBuildIdNotesLimit = 1 << 16;  // real ones have some hundred bytes
  Cursor cursor(clip(notes, 0, kBuildIdNotesLimit));
  while (cursor.left() >= sizeof(Elf64_Nhdr)) {
    const auto header = cursor.get<Elf64_Nhdr>();
    const Bytes name = cursor.take((header.n_namesz + std::uint64_t{3}) & ~std::uint64_t{3});
    // Notes of 8-byte alignment (.note.gnu.property) pad what follows the name to 8 as well.
    const std::uint64_t misaligned = cursor.offset() % align;
    if (misaligned != 0) cursor.skip(align - misaligned);
    const Bytes content = cursor.take(header.n_descsz);
    if (!cursor.ok()) return std::nullopt;
    if (header.n_type == NT_GNU_BUILD_ID && c_string(name, 0) == "GNU" && !content.empty() &&
        content.size() <= 64) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      std::string text;
      for (const std::uint8_t byte : content) {
        text += kDigits[byte >> 4];
        text += kDigits[byte & 15];
      }
      return text;
    }
    const std::uint64_t rest = cursor.offset() % align;
    if (rest != 0) cursor.skip(align - rest);
  }
  return std::nullopt;
}

std::shared_ptr<const Image> Image::open(const std::string& path, std::string& error) {
  const underway::Opening opening(path);
  if (opening.refused()) {
    error = *opening.refused();
    return nullptr;
  }
  auto file = MappedFile::open(path, error);
  if (!file) return nullptr;
  std::shared_ptr<Image> image(new Image);
  image->bytes_ = file->bytes();
  image->file_ = std::move(file);
  return image->read(error) ? image : nullptr;
}

std::shared_ptr<const Image> Image::parse(Bytes bytes, std::string& error) {
  std::shared_ptr<Image> image(new Image);
  image->bytes_ = bytes;
  return image->read(error) ? image : nullptr;
}

bool Image::read(std::string& error) {
  const auto header = load<Elf64_Ehdr>(bytes_, 0);
  if (!header || !is_elf(bytes_) || header->e_ident[EI_CLASS] != ELFCLASS64 ||
      header->e_ident[EI_DATA] != ELFDATA2LSB) {
    error = "not a 64-bit little-endian ELF file";
    return false;
  }
  header_ = *header;
  if (header_.e_phnum > kMaxProgramHeaders ||
      (header_.e_phnum > 0 && header_.e_phentsize != sizeof(Elf64_Phdr))) {
    error = "program headers make no sense";
    return false;
  }
  for (std::uint64_t i = 0; i < header_.e_phnum; ++i) {
    const auto row = load<Elf64_Phdr>(bytes_, header_.e_phoff + i * sizeof(Elf64_Phdr));
    if (!row) break;
    program_headers_.push_back(*row);
  }
  for (const Elf64_Phdr& row : program_headers_) {
    if (row.p_type != PT_NOTE || build_id_) continue;
    build_id_ = find_build_id(clip(bytes_, row.p_offset, row.p_filesz), row.p_align);
  }
  if (program_headers_.empty()) {  // object files and some debug files have sections only
    if (const auto note = section(".note.gnu.build-id")) {
      build_id_ = find_build_id(content(*note), 4);
    }
  }
  return true;
}

Bytes Image::at(std::uint64_t address) const noexcept {
  for (const Elf64_Phdr& row : program_headers_) {
    if (row.p_type != PT_LOAD || address < row.p_vaddr) continue;
    const std::uint64_t skip = address - row.p_vaddr;
    if (skip >= row.p_filesz) continue;
    if (row.p_offset > UINT64_MAX - skip) continue;
    return clip(bytes_, row.p_offset + skip, row.p_filesz - skip);
  }
  return {};
}

std::optional<std::uint64_t> Image::address_of(std::uint64_t file_offset) const noexcept {
  for (const Elf64_Phdr& row : program_headers_) {
    if (row.p_type != PT_LOAD || file_offset < row.p_offset) continue;
    if (file_offset - row.p_offset < row.p_filesz) {
      return row.p_vaddr + (file_offset - row.p_offset);
    }
  }
  return std::nullopt;
}

const Elf64_Phdr* Image::program_header(std::uint32_t type) const noexcept {
  const auto found = std::find_if(program_headers_.begin(), program_headers_.end(),
                                  [type](const Elf64_Phdr& row) { return row.p_type == type; });
  return found == program_headers_.end() ? nullptr : &*found;
}

std::vector<ImageSection> Image::sections() const {
  std::vector<ImageSection> result;
  if (header_.e_shoff == 0 || header_.e_shentsize != sizeof(Elf64_Shdr)) return result;
  const auto first = load<Elf64_Shdr>(bytes_, header_.e_shoff);
  if (!first) return result;
  const std::uint64_t count = std::min<std::uint64_t>(
      header_.e_shnum != 0 ? header_.e_shnum : first->sh_size, kMaxSections);
  const std::uint64_t names_index =
      header_.e_shstrndx == SHN_XINDEX ? first->sh_link : header_.e_shstrndx;
  const auto names_header =
      load<Elf64_Shdr>(bytes_, header_.e_shoff + names_index * sizeof(Elf64_Shdr));
  const Bytes names =
      names_header ? clip(bytes_, names_header->sh_offset, names_header->sh_size) : Bytes{};
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto row = load<Elf64_Shdr>(bytes_, header_.e_shoff + i * sizeof(Elf64_Shdr));
    if (!row) break;
    // Bounded, for the same reason as in is_named.
    const std::string_view name = c_string(clip(names, row->sh_name, kMaxSectionName), 0);
    result.push_back({name, row->sh_type, row->sh_flags, row->sh_addr, row->sh_offset, row->sh_size,
                      row->sh_link, row->sh_entsize});
  }
  return result;
}

std::optional<ImageSection> Image::section(std::string_view name) const {
  for (const ImageSection& row : sections()) {
    if (row.name == name) return row;
  }
  return std::nullopt;
}

Bytes Image::content(const ImageSection& section) const noexcept {
  if (section.type == SHT_NOBITS) return {};
  return clip(bytes_, section.offset, section.size);
}

bool Image::has_debug_lines() const {
  for (const ImageSection& row : sections()) {
    if (row.type != SHT_NOBITS && row.size > 0 &&
        (row.name == ".debug_line" || row.name == ".zdebug_line")) {
      return true;
    }
  }
  return false;
}

// DT_GNU_HASH as in "GNU Hash ELF Sections" (Roland McGrath, 2006): bloom filter, buckets, chains.
std::optional<ImageSymbol> Image::hashed_symbol(std::string_view name, Bytes hash, Bytes symbols,
                                                Bytes strings) const {
  Cursor cursor(hash);
  const std::uint32_t buckets = cursor.u32(), first = cursor.u32(), bloom = cursor.u32();
  cursor.u32();  // bloom shift: the filter is only a short cut
  cursor.skip(std::uint64_t{bloom} * 8);
  const std::uint64_t table = cursor.offset();
  if (!cursor.ok() || buckets == 0) return std::nullopt;
  std::uint32_t wanted = 5381;
  for (const char c : name) wanted = wanted * 33 + static_cast<std::uint8_t>(c);
  std::uint64_t index =
      load<std::uint32_t>(hash, table + std::uint64_t{wanted % buckets} * 4).value_or(0);
  if (index < first) return std::nullopt;
  const std::uint64_t chains = table + std::uint64_t{buckets} * 4;
  for (;; ++index) {
    const auto chain = load<std::uint32_t>(hash, chains + (index - first) * 4);
    const auto symbol = load<Elf64_Sym>(symbols, index * sizeof(Elf64_Sym));
    if (!chain || !symbol) return std::nullopt;
    if ((*chain | 1) == (wanted | 1) && symbol->st_shndx != SHN_UNDEF &&
        is_named(strings, symbol->st_name, name)) {
      return ImageSymbol{symbol->st_value, symbol->st_size,
                         static_cast<std::uint8_t>(ELF64_ST_TYPE(symbol->st_info))};
    }
    if (*chain & 1) return std::nullopt;
  }
}

std::optional<ImageSymbol> Image::dynamic_symbol(std::string_view name) const {
  const Elf64_Phdr* const dynamic = program_header(PT_DYNAMIC);
  if (!dynamic) return std::nullopt;
  std::uint64_t hash = 0, symbols = 0, strings = 0;
  Cursor cursor(clip(bytes_, dynamic->p_offset, dynamic->p_filesz));
  while (cursor.left() >= sizeof(Elf64_Dyn)) {
    const auto row = cursor.get<Elf64_Dyn>();
    if (row.d_tag == DT_NULL) break;
    if (row.d_tag == DT_GNU_HASH) hash = row.d_un.d_ptr;
    if (row.d_tag == DT_SYMTAB) symbols = row.d_un.d_ptr;
    if (row.d_tag == DT_STRTAB) strings = row.d_un.d_ptr;
  }
  if (hash != 0) return hashed_symbol(name, at(hash), at(symbols), at(strings));
  return listed_symbol(name, SHT_DYNSYM);
}

std::optional<ImageSymbol> Image::listed_symbol(std::string_view name, std::uint32_t table) const {
  const std::vector<ImageSection> all = sections();
  for (const ImageSection& row : all) {
    if (row.type != table || row.link >= all.size()) continue;
    // The first alone: gABI allows one of each, and thousands over the same bytes never end.
    const Bytes strings = content(all[row.link]);
    Cursor cursor(content(row));
    while (cursor.left() >= sizeof(Elf64_Sym)) {
      const auto symbol = cursor.get<Elf64_Sym>();
      if (symbol.st_shndx != SHN_UNDEF && is_named(strings, symbol.st_name, name)) {
        return ImageSymbol{symbol.st_value, symbol.st_size,
                           static_cast<std::uint8_t>(ELF64_ST_TYPE(symbol.st_info))};
      }
    }
    break;
  }
  return std::nullopt;
}

std::optional<ImageSymbol> Image::symbol(std::string_view name) const {
  if (const auto found = dynamic_symbol(name)) return found;
  return listed_symbol(name, SHT_SYMTAB);
}

}  // namespace pm::elfcore
