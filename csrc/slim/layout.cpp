#include "slim/layout.h"

#include <algorithm>
#include <cstring>

namespace pm::slim {
namespace {

using elfcore::Core;
using elfcore::Segment;
using elfcore::SlimInfo;

template <class T>
void put(std::vector<std::uint8_t>& out, const T& value) {
  const std::size_t at = out.size();
  out.resize(at + sizeof value);
  std::memcpy(out.data() + at, &value, sizeof value);
}

void put_load(std::vector<std::uint8_t>& out, std::uint32_t flags, std::uint64_t offset,
              Range memory, std::uint64_t file_size) {
  Elf64_Phdr row{};
  row.p_type = PT_LOAD;
  row.p_flags = flags;
  row.p_offset = offset;
  row.p_vaddr = memory.start;
  row.p_filesz = file_size;
  row.p_memsz = memory.end - memory.start;
  row.p_align = kPage;
  put(out, row);
}

// Each segment of the address space, split where memory is left out. A part without memory in the
// file has the offset of the next one that has, as the kernel writes it: libdw takes no module from
// a core in which offsets go back.
std::vector<std::uint8_t> load_headers(const Core& core, const std::vector<Run>& runs,
                                       std::uint64_t data_end) {
  std::vector<std::uint8_t> out;
  auto run = runs.begin();
  const auto next_offset = [&] { return run == runs.end() ? data_end : run->offset; };
  for (const Segment& segment : core.segments()) {
    std::uint64_t at = segment.start;
    for (; run != runs.end() && run->memory.start < segment.end(); ++run) {
      if (run->memory.start > at) {
        put_load(out, segment.flags, next_offset(), {at, run->memory.start}, 0);
      }
      put_load(out, segment.flags, run->offset, run->memory, run->memory.end - run->memory.start);
      at = run->memory.end;
    }
    if (at < segment.end()) put_load(out, segment.flags, next_offset(), {at, segment.end()}, 0);
  }
  return out;
}

// Appends the notes of one segment without our own; false when they cannot be told apart to the
// end, so that nothing may be put behind them.
bool append_notes(Bytes notes, std::vector<std::uint8_t>& out) {
  Cursor cursor(notes);
  const auto padded = [](std::uint64_t size) { return (size + 3) & ~std::uint64_t{3}; };
  while (cursor.left() >= sizeof(Elf64_Nhdr)) {
    const std::uint64_t start = cursor.offset();
    const auto header = cursor.get<Elf64_Nhdr>();
    if (header.n_namesz == 0 && header.n_descsz == 0 && header.n_type == 0) return true;  // padding
    const Bytes name = cursor.take(padded(header.n_namesz));
    // gdb leaves out the padding behind the last note.
    const Bytes content = cursor.take(std::min(padded(header.n_descsz), cursor.left()));
    if (!cursor.ok() || content.size() < header.n_descsz) {
      const Bytes rest = notes.subspan(start);
      out.insert(out.end(), rest.begin(), rest.end());
      return false;
    }
    if (c_string(name, 0) == elfcore::kSlimNoteName && header.n_type == elfcore::kSlimNoteType) {
      continue;
    }
    const Bytes whole = notes.subspan(start, cursor.offset() - start);
    out.insert(out.end(), whole.begin(), whole.end());
    out.resize(padded(out.size()));
  }
  return true;
}

void append_own_note(const SlimInfo& info, std::vector<std::uint8_t>& out) {
  const std::vector<std::uint8_t> content = elfcore::encode_slim(info);
  Elf64_Nhdr header{};
  header.n_namesz = elfcore::kSlimNoteName.size() + 1;
  header.n_descsz = static_cast<std::uint32_t>(content.size());
  header.n_type = elfcore::kSlimNoteType;
  put(out, header);
  out.insert(out.end(), elfcore::kSlimNoteName.begin(), elfcore::kSlimNoteName.end());
  out.resize((out.size() / 4 + 1) * 4);  // a NUL at least
  out.insert(out.end(), content.begin(), content.end());
  out.resize((out.size() + 3) & ~std::size_t{3});
}

}  // namespace

// Ours stands in the last note segment, most often the only one: readers exist that look at the
// first alone. Behind damage nothing may follow in the same segment: it would become part of the
// damage.
Layout::Layout(const Core& core, const SlimInfo& info, const std::vector<Run>& runs) : core_(core) {
  bool clean = false;
  std::uint64_t left = core.bytes().size();  // thousands of ranges may name the same bytes
  const auto begin_part = [this] {
    notes_.resize((notes_.size() + 3) & ~std::size_t{3});
    note_parts_.push_back({notes_.size(), notes_.size()});
  };
  for (const auto& [offset, size] : core.note_ranges()) {
    const Bytes part = clip(clip(core.bytes(), offset, size), 0, left);
    left -= part.size();
    begin_part();
    clean = append_notes(part, notes_);
    note_parts_.back().end = notes_.size();
    if (note_parts_.back().start == note_parts_.back().end) {  // only our own note was there
      note_parts_.pop_back();
      clean = false;
    }
  }
  if (!clean) begin_part();
  append_own_note(info, notes_);
  note_parts_.back().end = notes_.size();
  count_ = note_parts_.size() + load_headers(core, runs, 0).size() / sizeof(Elf64_Phdr);
}

std::uint64_t Layout::size() const noexcept {
  const std::uint64_t section = count_ >= PN_XNUM ? sizeof(Elf64_Shdr) : 0;
  return count_ * sizeof(Elf64_Phdr) + section + notes_.size();
}

std::vector<std::uint8_t> Layout::tables(const std::vector<Run>& runs, std::uint64_t offset,
                                         std::uint64_t data_end) const {
  std::vector<std::uint8_t> out;
  const std::uint64_t notes_at = offset + size() - notes_.size();
  for (const Range& part : note_parts_) {
    Elf64_Phdr row{};
    row.p_type = PT_NOTE;
    row.p_offset = notes_at + part.start;
    row.p_filesz = part.end - part.start;
    row.p_align = 4;
    put(out, row);
  }
  const std::vector<std::uint8_t> loads = load_headers(core_, runs, data_end);
  out.insert(out.end(), loads.begin(), loads.end());
  if (count_ >= PN_XNUM) {
    Elf64_Shdr section{};
    section.sh_size = 1;
    section.sh_info = static_cast<Elf64_Word>(count_);
    put(out, section);
  }
  out.insert(out.end(), notes_.begin(), notes_.end());
  return out;
}

Elf64_Ehdr Layout::header(std::uint64_t tables_offset) const {
  Elf64_Ehdr header = *load<Elf64_Ehdr>(core_.bytes(), 0);
  header.e_phoff = tables_offset;
  header.e_ehsize = sizeof(Elf64_Ehdr);
  header.e_shoff = 0;
  header.e_shnum = 0;
  header.e_shstrndx = 0;
  header.e_shentsize = 0;
  header.e_phnum = static_cast<Elf64_Half>(std::min<std::uint64_t>(count_, PN_XNUM));
  if (count_ >= PN_XNUM) {  // the count stands in section header 0, right behind the table
    header.e_shoff = tables_offset + count_ * sizeof(Elf64_Phdr);
    header.e_shnum = 1;
    header.e_shentsize = sizeof(Elf64_Shdr);
  }
  return header;
}

}  // namespace pm::slim
