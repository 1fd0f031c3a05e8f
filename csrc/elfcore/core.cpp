#include "elfcore/core.h"

#include <elf.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "elfcore/image.h"
#include "elfcore/loaded_files.h"

namespace pm::elfcore {
namespace {

// vm.max_map_count is 65,530 by default; what distributions raise it to is seldom used up.
constexpr std::uint64_t kSegmentsLimit = 1 << 21;
constexpr std::uint64_t kNotesLimit = std::uint64_t{1} << 30;  // 400,000 threads with AVX-512

std::string machine_name(std::uint16_t machine) {
  switch (machine) {
    case EM_386:
      return "32-bit x86";
    case EM_ARM:
      return "32-bit ARM";
    case EM_PPC64:
      return "ppc64";
    case EM_S390:
      return "s390x";
    case EM_RISCV:
      return "RISC-V";
    default:
      return "ELF machine " + std::to_string(machine);
  }
}

const Segment* find_at(const std::vector<Segment>& rows, std::uint64_t address) {
  const auto above =
      std::upper_bound(rows.begin(), rows.end(), address,
                       [](std::uint64_t value, const Segment& s) { return value < s.start; });
  if (above == rows.begin()) return nullptr;
  const Segment& candidate = *std::prev(above);
  return candidate.contains(address) ? &candidate : nullptr;
}

}  // namespace

std::string hex(std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%" PRIx64, value);
  return text;
}

std::unique_ptr<Core> Core::open(const std::string& path) {
  std::string error;
  auto file = MappedFile::open(path, error);
  if (!file) throw EvidenceError("cannot be opened: " + error);
  std::unique_ptr<Core> core(new Core);
  core->bytes_ = file->bytes();
  core->file_ = std::move(file);
  core->read_headers();
  return core;
}

std::unique_ptr<Core> Core::parse(Bytes bytes) {
  std::unique_ptr<Core> core(new Core);
  core->bytes_ = bytes;
  core->read_headers();
  return core;
}

void Core::read_headers() {
  const auto header = load<Elf64_Ehdr>(bytes_, 0);
  if (bytes_.empty())
    throw EvidenceError("is empty: the disk or a quota was full, or a limit was 0");
  if (!is_elf(bytes_)) {
    throw EvidenceError("is not an ELF file", 0);
  }
  if (bytes_.size() > EI_DATA) {
    if (bytes_[EI_CLASS] != ELFCLASS64) throw EvidenceError("is not 64-bit ELF", EI_CLASS);
    if (bytes_[EI_DATA] != ELFDATA2LSB) throw EvidenceError("is not little endian", EI_DATA);
  }
  if (!header) {
    throw EvidenceError("ends inside the ELF header: " + std::to_string(bytes_.size()) +
                        " bytes, 64 needed");
  }
  if (header->e_type != ET_CORE) {
    const char* const kind = header->e_type == ET_EXEC  ? "an executable"
                             : header->e_type == ET_DYN ? "an executable or a shared library"
                             : header->e_type == ET_REL ? "an object file"
                                                        : "an ELF file of unknown type";
    throw EvidenceError(std::string("is ") + kind + ", not a core", 16);
  }
  if (header->e_machine != EM_X86_64 && header->e_machine != EM_AARCH64) {
    throw EvidenceError(
        "is a core of " + machine_name(header->e_machine) + "; x86-64 and aarch64 can be read", 18);
  }
  machine_ = static_cast<Machine>(header->e_machine);
  program_headers_ = header->e_phoff;
  read_segments(count_program_headers());
  check_segments();
  take_slim_segments();
  refuse_other_systems();
  check_threads();
  find_origin();
  find_crashed_thread();
}

// What has no thread of a Linux process in a note that can be read is no evidence of one: neither a
// signal nor a stack can be told, and "it did not crash" would be as wrong as "it did".
void Core::refuse_other_systems() const {
  if (!threads_.empty()) return;
  if (!other_system_.empty()) {
    throw EvidenceError("is a core of " + other_system_ + "; those of Linux can be read");
  }
  if (first_note_ || truncated() || first_thread_lost_) return;
  throw EvidenceError(
      "has no notes of a process: no thread, no signal, no registers (neither a kernel nor gdb "
      "wrote it)");
}

// What lies in the file stays in `pieces_`; the address space is that of the core that the slim one
// was made from.
void Core::take_slim_segments() {
  if (!slim_) return;
  std::vector<Segment> all;
  all.reserve(slim_->segments.size());
  for (const SlimSegment& row : slim_->segments) {
    Segment segment;
    segment.start = row.start;
    segment.size = row.size;
    segment.dumped = row.dumped;
    segment.present = row.present;
    segment.flags = row.flags;
    all.push_back(segment);
  }
  std::size_t at = 0;
  for (const Segment& piece : segments_) {
    while (at < all.size() && all[at].end() <= piece.start) ++at;
    if (at < all.size() && all[at].contains(piece.start) && piece.end() <= all[at].end()) continue;
    problems_.add(
        "notes",
        "the note of a slim core does not fit its segments; it is read as an ordinary one");
    slim_.reset();
    return;
  }
  pieces_ = std::move(segments_);
  segments_ = std::move(all);
}

void Core::check_threads() {
  if (threads_.empty()) {
    problems_.add("notes", "no thread state (NT_PRSTATUS) could be read",
                  "the core is cut or was not written by a kernel or gdb");
  }
  std::vector<std::int32_t> tids;
  tids.reserve(threads_.size());
  for (const ThreadState& thread : threads_) tids.push_back(thread.tid);
  std::sort(tids.begin(), tids.end());
  const auto twice = std::adjacent_find(tids.begin(), tids.end());
  if (twice != tids.end()) {
    problems_.add("threads", "thread " + std::to_string(*twice) +
                                 " is there more than once; the first one is believed");
  }
}

// More than 65,534 segments: e_phnum is PN_XNUM and the count stands in section header 0, which
// the kernel writes at the very end of the file. In a cut core it is gone; then the count follows
// from the first header, whose notes begin right behind the table.
std::uint64_t Core::count_program_headers() const {
  const auto header = load<Elf64_Ehdr>(bytes_, 0);
  if (header->e_phentsize != sizeof(Elf64_Phdr)) {
    throw EvidenceError(
        "program headers of " + std::to_string(header->e_phentsize) + " bytes; expected 56", 54);
  }
  if (header->e_phnum != PN_XNUM) return header->e_phnum;
  const auto section = load<Elf64_Shdr>(bytes_, header->e_shoff);
  if (header->e_shoff != 0 && section && section->sh_info > 0) return section->sh_info;
  const auto first = load<Elf64_Phdr>(bytes_, program_headers_);
  if (first && first->p_offset > program_headers_) {
    return (first->p_offset - program_headers_) / sizeof(Elf64_Phdr);
  }
  return header->e_phnum;
}

void Core::read_segments(std::uint64_t count) {
  const Bytes table = clip(bytes_, program_headers_, bytes_.size());
  const std::uint64_t available = table.size() / sizeof(Elf64_Phdr);
  if (count == 0) throw EvidenceError("has no program headers", 56);
  if (available == 0) {
    throw EvidenceError("ends before the program headers at " + hex(program_headers_));
  }
  expected_size_ = program_headers_ + count * sizeof(Elf64_Phdr);
  if (count > available) {
    problems_.add("program headers", std::to_string(count) +
                                         " are promised, the file has room for " +
                                         std::to_string(available));
    count = available;
  }
  if (count > kSegmentsLimit) {
    problems_.add("program headers", std::to_string(count) + " are promised, only the first " +
                                         std::to_string(kSegmentsLimit) + " are read");
    count = kSegmentsLimit;
  }
  std::vector<std::pair<std::uint64_t, std::uint64_t>> notes;
  std::size_t beyond = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto header = load<Elf64_Phdr>(table, i * sizeof(Elf64_Phdr));
    const bool fits = header->p_filesz <= UINT64_MAX - header->p_offset;
    if (fits && header->p_filesz > 0) {
      expected_size_ = std::max<std::uint64_t>(expected_size_, header->p_offset + header->p_filesz);
    }
    if (header->p_type == PT_NOTE) notes.emplace_back(header->p_offset, header->p_filesz);
    if (header->p_type != PT_LOAD || header->p_memsz == 0) continue;
    Segment segment;
    segment.start = header->p_vaddr;
    segment.size = std::min<std::uint64_t>(header->p_memsz, UINT64_MAX - header->p_vaddr);
    if (segment.size < header->p_memsz) ++beyond;
    if (segment.size == 0) continue;
    segment.offset = header->p_offset;
    segment.dumped = std::min<std::uint64_t>(header->p_filesz, segment.size);
    segment.present = clip(bytes_, segment.offset, segment.dumped).size();
    segment.flags = header->p_flags;
    segments_.push_back(segment);
  }
  if (beyond > 0) {
    problems_.add("program headers", std::to_string(beyond) +
                                         " segments reach beyond the end of the address space; "
                                         "they are taken to end there");
  }
  note_ranges_ = notes;
  std::uint64_t notes_left = std::min<std::uint64_t>(bytes_.size(), kNotesLimit);
  for (const auto& [offset, size] : notes) {
    // A core has one or two. Thousands over the same bytes would be read thousands of times.
    const std::uint64_t there = clip(bytes_, offset, size).size();
    if (there > notes_left) {
      problems_.add("notes",
                    "more than the file can hold, or than a process can have; the rest "
                    "is not read");
      read_notes(offset, notes_left);
      break;
    }
    read_notes(offset, size);
    notes_left -= there;
  }
  if (notes.empty()) problems_.add("program headers", "no notes: nothing is known of the threads");
}

void Core::check_segments() {
  std::stable_sort(segments_.begin(), segments_.end(),
                   [](const Segment& a, const Segment& b) { return a.start < b.start; });
  std::uint64_t covered = 0;  // end of all that came before
  std::size_t overlaps = 0;
  for (Segment& segment : segments_) {
    if (segment.start < covered) {
      ++overlaps;
      const std::uint64_t cut = std::min(covered - segment.start, segment.size);
      segment.start += cut;
      segment.size -= cut;
      segment.offset += std::min(cut, segment.dumped);
      segment.dumped -= std::min(cut, segment.dumped);
      segment.present -= std::min(cut, segment.present);
    }
    covered = std::max(covered, segment.end());
  }
  if (overlaps > 0) {
    std::erase_if(segments_, [](const Segment& s) { return s.size == 0; });
    problems_.add("segments", std::to_string(overlaps) +
                                  " overlap others: the core is damaged or was made by hand; the "
                                  "one at the lower address is believed");
  }
  if (truncated()) {
    problems_.add("core",
                  "cut off: " + std::to_string(bytes_.size()) + " of " +
                      std::to_string(expected_size_) +
                      " bytes are there; memory at high addresses (main stack, libc) is lost first",
                  "look for a full disk, a quota, ulimit -c, or the dump handler's size limit "
                  "(coredump.conf: ExternalSizeMax=, ProcessSizeMax=)");
  }
}

std::optional<std::uint64_t> Core::auxv(std::uint64_t type) const noexcept {
  for (std::uint64_t at = 0; at + 16 <= auxv_.size(); at += 16) {
    const auto key = load<std::uint64_t>(auxv_, at);
    if (*key == 0) break;
    if (*key == type) return load<std::uint64_t>(auxv_, at + 8);
  }
  return std::nullopt;
}

const ThreadState* Core::thread(std::int32_t tid) const noexcept {
  const auto found = std::find_if(threads_.begin(), threads_.end(),
                                  [tid](const ThreadState& t) { return t.tid == tid; });
  return found == threads_.end() ? nullptr : &*found;
}

const Segment* Core::segment_at(std::uint64_t address) const noexcept {
  return find_at(segments_, address);
}

const Segment* Core::segment_above(std::uint64_t address) const noexcept {
  const auto above =
      std::upper_bound(segments_.begin(), segments_.end(), address,
                       [](std::uint64_t value, const Segment& s) { return value < s.start; });
  return above == segments_.end() ? nullptr : &*above;
}

const Segment* Core::segment_below(std::uint64_t address) const noexcept {
  const auto above =
      std::upper_bound(segments_.begin(), segments_.end(), address,
                       [](std::uint64_t value, const Segment& s) { return value < s.start; });
  if (above == segments_.begin()) return nullptr;
  const auto candidate = std::prev(above);
  if (!candidate->contains(address)) return &*candidate;
  return candidate == segments_.begin() ? nullptr : &*std::prev(candidate);
}

const FileMapping* Core::file_at(std::uint64_t address) const noexcept {
  const auto above =
      std::upper_bound(files_.begin(), files_.end(), address,
                       [](std::uint64_t value, const FileMapping& f) { return value < f.start; });
  if (above == files_.begin()) return nullptr;
  const FileMapping& candidate = *std::prev(above);
  return address < candidate.end ? &candidate : nullptr;
}

void Core::add_files(const std::vector<LoadedFile>& rows) {
  std::vector<FileMapping> all = files_;
  for (const LoadedFile& row : rows) {
    const auto at = std::lower_bound(
        files_.begin(), files_.end(), row.start,
        [](const FileMapping& file, std::uint64_t start) { return file.end <= start; });
    if (at != files_.end() && at->start < row.end) continue;
    if (names_.empty() || names_.back() != row.path) names_.push_back(row.path);
    all.push_back({row.start, row.end, row.offset, names_.back(), true});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const FileMapping& a, const FileMapping& b) { return a.start < b.start; });
  files_ = std::move(all);
}

const Segment* Core::piece_at(std::uint64_t address) const noexcept {
  return find_at(pieces(), address);
}

Bytes Core::dumped_at(std::uint64_t address) const noexcept {
  const Segment* const piece = piece_at(address);
  if (!piece) return {};
  const std::uint64_t skip = address - piece->start;
  if (skip >= piece->present) return {};
  std::uint64_t size = piece->present - skip;
  if (watch_) size = std::min(size, watch_->on_read(address, MemoryWatch::kGlimpse));
  return clip(bytes_, piece->offset + skip, size);
}

}  // namespace pm::elfcore
