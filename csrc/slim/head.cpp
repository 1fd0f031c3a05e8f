#include "slim/head.h"

#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

namespace pm::slim {
namespace {

// 2 million segments; notes of 100,000 threads with AVX-512.
constexpr std::uint64_t kTableLimit = 128u << 20, kNotesLimit = 512u << 20;
constexpr std::size_t kFirstBlock = 4096, kReadBlock = 1 << 20;

// How many program headers there are. With PN_XNUM the count stands at the end of the stream; then
// it follows from the notes, which begin right behind the table.
std::uint64_t table_size(const Elf64_Ehdr& header, Bytes bytes) {
  if (header.e_phnum != PN_XNUM) return std::uint64_t{header.e_phnum} * sizeof(Elf64_Phdr);
  const auto section = load<Elf64_Shdr>(bytes, header.e_shoff);
  if (header.e_shoff != 0 && section) return std::uint64_t{section->sh_info} * sizeof(Elf64_Phdr);
  const auto first = load<Elf64_Phdr>(bytes, header.e_phoff);
  if (!first || first->p_offset < header.e_phoff) return 0;
  return first->p_offset - header.e_phoff;
}

// Where the last note ends; nothing when one stands behind memory.
std::optional<std::uint64_t> notes_end(Bytes bytes, std::uint64_t table, std::uint64_t size) {
  std::uint64_t notes = 0, memory = UINT64_MAX;
  for (std::uint64_t at = table; at + sizeof(Elf64_Phdr) <= table + size;
       at += sizeof(Elf64_Phdr)) {
    const auto row = load<Elf64_Phdr>(bytes, at);
    if (!row) break;
    if (row->p_type == PT_LOAD && row->p_filesz > 0) {
      memory = std::min<std::uint64_t>(memory, row->p_offset);
    }
    if (row->p_type == PT_NOTE && row->p_filesz <= kNotesLimit &&
        row->p_offset <= UINT64_MAX - row->p_filesz) {
      notes = std::max<std::uint64_t>(notes, row->p_offset + row->p_filesz);
    }
  }
  if (notes > memory || notes > table + size + kNotesLimit) return std::nullopt;
  return notes;
}

}  // namespace

bool fill(int fd, std::vector<std::uint8_t>& bytes, std::uint64_t size) {
  while (bytes.size() < size) {
    const std::size_t before = bytes.size();
    // What the headers say is there may not be: room grows with what has come.
    const std::size_t most = std::clamp(before, kFirstBlock, kReadBlock);
    bytes.resize(before + std::min<std::uint64_t>(size - before, most));
    const ssize_t count = read(fd, bytes.data() + before, bytes.size() - before);
    bytes.resize(before + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
  }
  return true;
}

Head read_head(int fd, std::vector<std::uint8_t> bytes) {
  Head head;
  head.bytes = std::move(bytes);
  fill(fd, head.bytes, sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr));
  if (const auto header = load<Elf64_Ehdr>(head.bytes, 0);
      header && header->e_phoff < kTableLimit) {
    fill(fd, head.bytes, header->e_phoff + sizeof(Elf64_Phdr));
    const std::uint64_t size = std::min(table_size(*header, head.bytes), kTableLimit);
    fill(fd, head.bytes, header->e_phoff + size);
    const auto end = notes_end(head.bytes, header->e_phoff, size);
    head.notes_late = !end;
    fill(fd, head.bytes, end.value_or(0));
  }
  head.core = elfcore::Core::parse(head.bytes);
  head.expected_bytes = head.core->expected_size();
  return head;
}

}  // namespace pm::slim
