#include "slim/writer.h"

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace pm::slim {
namespace {

using elfcore::Core;
using elfcore::Segment;
using elfcore::SlimInfo;

// Two stretches that are nearer than this are written as one: a program header costs readers more.
constexpr std::uint64_t kGap = 2 * kPage;
constexpr std::size_t kBlock = 1 << 20;

struct Run {
  Range memory;
  std::uint64_t offset = 0;  // in the slim core
};

template <class T>
void put(std::vector<std::uint8_t>& out, const T& value) {
  const std::size_t at = out.size();
  out.resize(at + sizeof value);
  std::memcpy(out.data() + at, &value, sizeof value);
}

std::uint64_t page_up(std::uint64_t value) { return (value + kPage - 1) & ~(kPage - 1); }

// The part of each range that the core has, by address.
std::vector<Run> find_runs(const Core& core, const std::vector<Range>& ranges) {
  std::vector<Run> runs;
  std::size_t next = 0;
  for (const Segment& piece : core.pieces()) {
    const std::uint64_t end = piece.start + piece.present;
    while (next < ranges.size() && ranges[next].end <= piece.start) ++next;
    bool first = true;
    for (std::size_t i = next; i < ranges.size() && ranges[i].start < end; ++i) {
      const Range part{std::max(ranges[i].start, piece.start), std::min(ranges[i].end, end)};
      if (part.start >= part.end) continue;
      if (!first && part.start - runs.back().memory.end <= kGap) {
        runs.back().memory.end = part.end;
      } else {
        runs.push_back({part, 0});
      }
      first = false;
    }
  }
  return runs;
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

struct NoteSegments {
  std::vector<std::uint8_t> bytes;
  std::vector<std::size_t> sizes;
};

// One segment if possible: readers exist that look at the first one only.
NoteSegments gather_notes(const Core& core, const SlimInfo& info) {
  NoteSegments notes;
  bool clean = true;
  std::uint64_t left = core.bytes().size();  // thousands of ranges may name the same bytes
  for (const auto& [offset, size] : core.note_ranges()) {
    const Bytes part = clip(clip(core.bytes(), offset, size), 0, left);
    left -= part.size();
    clean = append_notes(part, notes.bytes) && clean;
  }
  if (!clean) {
    notes.bytes.resize((notes.bytes.size() + 3) & ~std::size_t{3});
    notes.sizes.push_back(notes.bytes.size());
  }
  const std::size_t before = clean ? 0 : notes.bytes.size();
  append_own_note(info, notes.bytes);
  notes.sizes.push_back(notes.bytes.size() - before);
  return notes;
}

class Output {
 public:
  explicit Output(int fd) : fd_(fd) {}

  void write(Bytes bytes, std::uint64_t offset) {
    while (!bytes.empty()) {
      const ssize_t count = pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) throw std::system_error(count < 0 ? errno : ENOSPC, std::generic_category());
      bytes = bytes.subspan(static_cast<std::size_t>(count));
      offset += static_cast<std::uint64_t>(count);
    }
  }
  // Pages of zeros become holes.
  void write_sparse(Bytes bytes, std::uint64_t offset) {
    std::size_t from = 0;
    for (std::size_t at = 0; at <= bytes.size(); at += kPage) {
      const bool end = at + kPage > bytes.size();
      if (!end && std::any_of(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                              bytes.begin() + static_cast<std::ptrdiff_t>(at + kPage),
                              [](std::uint8_t byte) { return byte != 0; })) {
        continue;
      }
      const std::size_t to = end ? bytes.size() : at;
      if (to > from) write(bytes.subspan(from, to - from), offset + from);
      from = at + kPage;
      if (end) break;
    }
  }
  void finish(std::uint64_t size) {
    if (ftruncate(fd_, static_cast<off_t>(size)) != 0) {
      throw std::system_error(errno, std::generic_category());
    }
  }

 private:
  int fd_;
};

// The core is mapped with random-access advice: without asking ahead, each page is a disk read.
void read_ahead(Bytes bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data()) & ~(kPage - 1);
  const auto end = reinterpret_cast<std::uintptr_t>(bytes.data()) + bytes.size();
  if (!bytes.empty()) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_WILLNEED);
}

void copy_run(const Core& core, const Run& run, Output& output) {
  std::uint64_t at = run.memory.start;
  while (at < run.memory.end) {
    const Bytes part =
        clip(core.dumped_at(at), 0, std::min<std::uint64_t>(run.memory.end - at, kBlock));
    if (part.empty()) return;  // stays a hole; only where a fetcher fails after it succeeded
    output.write_sparse(part, run.offset + (at - run.memory.start));
    at += part.size();
  }
}

Elf64_Ehdr file_header(const Core& core, std::uint64_t count) {
  Elf64_Ehdr header = *load<Elf64_Ehdr>(core.bytes(), 0);
  header.e_phoff = sizeof(Elf64_Ehdr);
  header.e_ehsize = sizeof(Elf64_Ehdr);
  header.e_shoff = 0;
  header.e_shnum = 0;
  header.e_shstrndx = 0;
  header.e_shentsize = 0;
  header.e_phnum = static_cast<Elf64_Half>(std::min<std::uint64_t>(count, PN_XNUM));
  if (count >= PN_XNUM) {  // the count stands in section header 0; ours lies behind the table
    header.e_shoff = sizeof(Elf64_Ehdr) + count * sizeof(Elf64_Phdr);
    header.e_shnum = 1;
    header.e_shentsize = sizeof(Elf64_Shdr);
  }
  return header;
}

}  // namespace

SlimInfo describe_source(const Core& core) {
  SlimInfo info;
  if (core.slim()) {
    info = *core.slim();
    info.spooled = false;
    return info;
  }
  info.source_bytes = core.bytes().size();
  info.expected_bytes = core.expected_size();
  info.segments.reserve(core.segments().size());
  for (const Segment& segment : core.segments()) {
    info.segments.push_back(
        {segment.start, segment.size, segment.dumped, segment.present, segment.flags});
  }
  return info;
}

Written write_core(const Core& core, const std::vector<Range>& ranges, const SlimInfo& info,
                   int fd) {
  std::vector<Run> runs = find_runs(core, ranges);
  const NoteSegments notes = gather_notes(core, info);
  // The headers' size depends on the number of runs alone.
  const std::uint64_t count =
      notes.sizes.size() + load_headers(core, runs, 0).size() / sizeof(Elf64_Phdr);
  const Elf64_Ehdr header = file_header(core, count);
  const std::uint64_t notes_at =
      sizeof header + count * sizeof(Elf64_Phdr) + (header.e_shnum ? sizeof(Elf64_Shdr) : 0);
  Written written;
  std::uint64_t at = page_up(notes_at + notes.bytes.size());
  for (Run& run : runs) {
    const std::uint64_t skew = run.memory.start % kPage;  // offset and address agree in a page
    run.offset = at + skew;
    at = page_up(run.offset + (run.memory.end - run.memory.start));
    written.kept_bytes += run.memory.end - run.memory.start;
  }
  std::vector<std::uint8_t> head;
  put(head, header);
  std::uint64_t note_at = notes_at;
  for (const std::size_t size : notes.sizes) {
    Elf64_Phdr row{};
    row.p_type = PT_NOTE;
    row.p_offset = note_at;
    row.p_filesz = size;
    row.p_align = 4;
    put(head, row);
    note_at += size;
  }
  const std::vector<std::uint8_t> loads = load_headers(core, runs, at);
  head.insert(head.end(), loads.begin(), loads.end());
  if (header.e_shnum) {
    Elf64_Shdr section{};
    section.sh_size = 1;
    section.sh_info = static_cast<Elf64_Word>(count);
    put(head, section);
  }
  head.insert(head.end(), notes.bytes.begin(), notes.bytes.end());
  Output output(fd);
  output.write(head, 0);
  for (const Run& run : runs) {
    if (!core.watch()) {
      read_ahead(clip(core.dumped_at(run.memory.start), 0, run.memory.end - run.memory.start));
    }
  }
  for (const Run& run : runs) copy_run(core, run, output);
  written.file_bytes =
      runs.empty() ? head.size()
                   : runs.back().offset + (runs.back().memory.end - runs.back().memory.start);
  output.finish(written.file_bytes);
  written.pieces = runs.size();
  return written;
}

}  // namespace pm::slim
