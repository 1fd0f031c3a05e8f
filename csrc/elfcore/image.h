// An ELF file on disk: an executable, a shared library, a separate debug file.
#pragma once

#include <elf.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/mapped_file.h"
#include "elfcore/registers.h"

namespace pm::elfcore {

struct ImageSection {
  std::string_view name;
  std::uint32_t type = 0;
  std::uint64_t flags = 0;
  std::uint64_t address = 0;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint32_t link = 0;
  std::uint64_t entry_size = 0;
};

struct ImageSymbol {
  std::uint64_t value = 0;  // link-time address; for TLS symbols an offset
  std::uint64_t size = 0;
  std::uint8_t type = 0;  // STT_*
};

class Image {
 public:
  // Null when the file is not a 64-bit little-endian ELF file; then `error` says why.
  static std::shared_ptr<const Image> open(const std::string& path, std::string& error);
  static std::shared_ptr<const Image> parse(Bytes bytes, std::string& error);

  Bytes bytes() const noexcept { return bytes_; }
  std::uint16_t machine() const noexcept { return header_.e_machine; }
  std::uint16_t type() const noexcept { return header_.e_type; }
  std::uint64_t entry() const noexcept { return header_.e_entry; }
  const std::vector<Elf64_Phdr>& program_headers() const noexcept { return program_headers_; }
  const std::optional<std::string>& build_id() const noexcept { return build_id_; }

  // Bytes at a link-time address, as far as the file has them in that segment; maybe none.
  Bytes at(std::uint64_t address) const noexcept;
  // Link-time address of a file offset that a PT_LOAD covers.
  std::optional<std::uint64_t> address_of(std::uint64_t file_offset) const noexcept;
  // The program header of a type, if there is one.
  const Elf64_Phdr* program_header(std::uint32_t type) const noexcept;

  // Sections are read on demand: only symbol tables and debug data need them.
  std::vector<ImageSection> sections() const;
  std::optional<ImageSection> section(std::string_view name) const;
  Bytes content(const ImageSection& section) const noexcept;
  bool has_debug_lines() const;

  // A defined dynamic symbol by name: through DT_GNU_HASH, else one by one.
  std::optional<ImageSymbol> dynamic_symbol(std::string_view name) const;
  // A defined symbol by name from .dynsym or else .symtab.
  std::optional<ImageSymbol> symbol(std::string_view name) const;

 private:
  Image() = default;
  bool read(std::string& error);
  std::optional<ImageSymbol> hashed_symbol(std::string_view name, Bytes hash, Bytes symbols,
                                           Bytes strings) const;
  std::optional<ImageSymbol> listed_symbol(std::string_view name, std::uint32_t table) const;

  std::shared_ptr<const MappedFile> file_;
  Bytes bytes_;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Phdr> program_headers_;
  std::optional<std::string> build_id_;
};

// Whether bytes begin as every ELF file does.
inline bool is_elf(Bytes bytes) noexcept { return as_text(clip(bytes, 0, SELFMAG)) == ELFMAG; }

// The build ID (NT_GNU_BUILD_ID) among ELF notes, in hexadecimal.
std::optional<std::string> find_build_id(Bytes notes, std::uint64_t alignment);

}  // namespace pm::elfcore
