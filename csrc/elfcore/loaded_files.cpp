#include "elfcore/loaded_files.h"

#include <elf.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>

#include "elfcore/image.h"

namespace pm::elfcore {
namespace {

constexpr std::size_t kMaxObjects = 4096;
constexpr std::uint64_t kMaxHeaders = 256;  // ld.so and the kernel expect about a dozen
constexpr std::size_t kMaxPath = 4096;
constexpr unsigned kMaxSegments = 8;                    // of one object, below its dynamic section
constexpr std::size_t kMaxData = std::size_t{1} << 20;  // of the program, up to its dynamic section
constexpr std::uint64_t kMaxDynamic = 64 * sizeof(Elf64_Dyn);  // some 30 rows
constexpr std::uint64_t kMaxGap = std::uint64_t{4} << 20;      // old linkers leave 2 MiB

using Headers = std::vector<Elf64_Phdr>;

const Elf64_Phdr* find(const Headers& rows, std::uint32_t type) {
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [type](const Elf64_Phdr& row) { return row.p_type == type; });
  return found == rows.end() ? nullptr : &*found;
}

Headers read_headers(const Core& core, std::uint64_t address, std::uint64_t count) {
  Headers rows;
  const Bytes table = core.dumped_at(address);
  for (std::uint64_t i = 0; i < std::min(count, kMaxHeaders); ++i) {
    const auto row = load<Elf64_Phdr>(table, i * sizeof(Elf64_Phdr));
    if (!row) return {};
    rows.push_back(*row);
  }
  return rows;
}

// One object of the loader's list.
struct Object {
  std::string path;
  std::uint64_t bias = 0;
  std::uint64_t anchor = 0;  // an address in it
  Headers rows;              // empty: neither the core nor this machine has them
};

class Loaded {
 public:
  Loaded(const Core& core, const std::string& executable, const std::string& sysroot)
      : core_(core), given_(executable), sysroot_(sysroot) {
    const std::uint64_t page = core.auxv(AT_PAGESZ).value_or(0);
    page_ = page >= 4096 && page <= 65536 && (page & (page - 1)) == 0 ? page : core.page_size();
  }

  std::vector<LoadedFile> find() {
    if (read_executable()) {
      const std::uint64_t debug = find_debug();
      add(program_);
      read_link_map(debug);
    }
    add_code_below_data();
    std::stable_sort(result_.begin(), result_.end(),
                     [](const LoadedFile& a, const LoadedFile& b) { return a.start < b.start; });
    // Where a crafted list overlaps, what comes first is believed.
    std::uint64_t covered = 0;
    std::erase_if(result_, [&](LoadedFile& row) {
      row.offset += covered > row.start ? covered - row.start : 0;
      row.start = std::max(row.start, covered);
      covered = std::max(covered, row.end);
      return row.start >= row.end;
    });
    return std::move(result_);
  }

 private:
  std::uint64_t down(std::uint64_t address) const { return address & ~(page_ - 1); }
  std::uint64_t up(std::uint64_t address) const { return down(address + page_ - 1); }

  std::string text(std::uint64_t address) const {
    return std::string(c_string(clip(core_.dumped_at(address), 0, kMaxPath), 0));
  }

  // A crafted list may name one file thousands of times.
  std::shared_ptr<const Image> open(const std::string& path) {
    const auto [found, is_new] = opened_.try_emplace(path);
    if (!is_new) return found->second;
    std::string error;
    auto image = path.starts_with('/') || path == given_ ? Image::open(path, error) : nullptr;
    const bool fits = image && image->machine() == static_cast<std::uint16_t>(core_.machine());
    if (fits) found->second = std::move(image);
    return found->second;
  }

  // The kernel tells the program where its headers and its entry are (getauxval(3)).
  bool read_executable() {
    const std::uint64_t headers = core_.auxv(AT_PHDR).value_or(0);
    const std::uint64_t count = core_.auxv(AT_PHNUM).value_or(0);
    const std::uint64_t entry = core_.auxv(AT_ENTRY).value_or(0);
    if (const auto name = core_.auxv(AT_EXECFN)) program_.path = text(*name);
    if (program_.path.empty()) program_.path = given_;
    if (program_.path.empty() && core_.process()) program_.path = core_.process()->command;
    if (program_.path.empty()) program_.path = "executable";
    program_.anchor = entry != 0 ? entry : headers;
    if (program_.anchor == 0 && find_header()) return true;
    program_.rows = read_headers(core_, headers, count);
    if (!program_.rows.empty()) return find_bias(headers);
    for (const std::string& path : {given_, sysroot_ + program_.path}) {
      const auto image = path.empty() ? nullptr : open(path);
      if (!image || (count != 0 && image->program_headers().size() != count)) continue;
      program_.rows = image->program_headers();
      if (entry != 0) {
        program_.bias = entry - image->entry();
        if (down(program_.bias) == program_.bias) return true;
      } else if (image->type() == ET_EXEC) {
        program_.bias = 0;
        const Elf64_Phdr* const text = find_text();
        if (text && core_.segment_at(text->p_vaddr)) return true;
      }
      program_.rows.clear();
    }
    return program_.anchor != 0;
  }

  // Without an auxiliary vector (valgrind): the program is the image that asks for an interpreter.
  bool find_header() {
    for (const Segment& segment : core_.segments()) {
      const Bytes first = core_.dumped_at(segment.start);
      const auto header = load<Elf64_Ehdr>(first, 0);
      if (!header || !is_elf(first) || header->e_phentsize != sizeof(Elf64_Phdr)) continue;
      Headers rows = read_headers(core_, segment.start + header->e_phoff, header->e_phnum);
      const Elf64_Phdr* const load = elfcore::find(rows, PT_LOAD);
      if (!load || (header->e_type != ET_EXEC && !elfcore::find(rows, PT_INTERP))) continue;
      program_.bias = segment.start - down(load->p_vaddr);
      program_.anchor = segment.start;
      program_.rows = std::move(rows);
      return true;
    }
    return false;
  }

  const Elf64_Phdr* find_text() const {
    for (const Elf64_Phdr& row : program_.rows) {
      if (row.p_type == PT_LOAD && (row.p_flags & PF_X)) return &row;
    }
    return nullptr;
  }

  bool find_bias(std::uint64_t headers) {
    if (const Elf64_Phdr* const own = elfcore::find(program_.rows, PT_PHDR)) {
      program_.bias = headers - own->p_vaddr;
    } else {  // a static program: the table follows the ELF header, at the start of the file
      for (const Elf64_Phdr& row : program_.rows) {
        if (row.p_type == PT_LOAD && down(row.p_offset) == 0) {
          program_.bias = down(headers) - down(row.p_vaddr);
          break;
        }
      }
    }
    if (down(program_.bias) == program_.bias) return true;
    program_.rows.clear();
    program_.bias = 0;
    return program_.anchor != 0;
  }

  std::uint64_t word(std::uint64_t address) const {
    return load<std::uint64_t>(core_.dumped_at(address), 0).value_or(0);
  }

  // The loader's struct r_debug (link.h), which it notes in the program's dynamic section.
  std::uint64_t find_debug() {
    if (program_.rows.empty()) return search_debug();
    const Elf64_Phdr* const dynamic = elfcore::find(program_.rows, PT_DYNAMIC);
    if (!dynamic) return 0;
    std::uint64_t debug = 0;
    Cursor cursor(clip(core_.dumped_at(program_.bias + dynamic->p_vaddr), 0, dynamic->p_memsz));
    while (cursor.left() >= sizeof(Elf64_Dyn)) {
      const auto row = cursor.get<Elf64_Dyn>();
      if (row.d_tag == DT_NULL) break;
      if (row.d_tag == DT_DEBUG) debug = row.d_un.d_ptr;
    }
    return debug;
  }

  // Neither the core nor this machine has the program's headers (qemu dumps no clean page): the
  // dynamic section lies in the data above its entry, and the list that it leads to begins with it.
  std::uint64_t search_debug() {
    std::size_t left = kMaxData;
    const Segment* segment = core_.segment_at(program_.anchor);
    for (unsigned i = 0; segment && i < kMaxSegments; ++i) {
      const Bytes data = clip(core_.dumped_at(segment->start), 0, left);
      left -= data.size();
      for (std::size_t at = 0; at + sizeof(Elf64_Dyn) <= data.size(); at += 8) {
        if (*load<std::uint64_t>(data, at) != DT_DEBUG) continue;
        const std::uint64_t debug = *load<std::uint64_t>(data, at + 8);
        const std::uint64_t first = word(debug + 8), dynamic = word(first + 16);
        const std::uint64_t own = segment->start + at;
        if (first == 0 || dynamic > own || own - dynamic > kMaxDynamic) continue;
        program_.anchor = dynamic;
        program_.bias = word(first);
        return debug;
      }
      const std::uint64_t end = segment->end();
      segment = core_.segment_above(segment->start);
      if (segment && segment->start - end > kMaxGap) segment = nullptr;
    }
    return 0;
  }

  // struct link_map, link.h.
  void read_link_map(std::uint64_t debug) {
    const std::uint64_t vdso = core_.auxv(AT_SYSINFO_EHDR).value_or(0);
    const Segment* const foreign = vdso != 0 ? core_.segment_at(vdso) : nullptr;
    std::uint64_t at = debug != 0 ? word(debug + 8) : 0;
    for (std::size_t i = 0; at != 0 && i < kMaxObjects; ++i, at = word(at + 24)) {
      Object object;
      object.bias = word(at);
      object.path = text(word(at + 8));
      object.anchor = word(at + 16);
      if (object.path.empty() || object.anchor == 0) continue;
      if (foreign && foreign->contains(object.anchor)) continue;
      read_rows(object);
      add(object);
    }
  }

  // Program headers of a library: in memory where its first page was dumped, else of the file.
  void read_rows(Object& object) {
    const Segment* segment = core_.segment_at(object.anchor);
    for (unsigned i = 0; segment && i < kMaxSegments; ++i) {
      const Bytes first = core_.dumped_at(segment->start);
      const auto header = load<Elf64_Ehdr>(first, 0);
      if (header && is_elf(first) && header->e_phentsize == sizeof(Elf64_Phdr)) {
        Headers rows = read_headers(core_, segment->start + header->e_phoff, header->e_phnum);
        if (fits(object, rows)) {
          object.rows = std::move(rows);
          return;
        }
      }
      const std::uint64_t start = segment->start;
      segment = core_.segment_below(start);
      if (segment && start - segment->end() > kMaxGap) segment = nullptr;
    }
    const auto image = open(sysroot_ + object.path);
    if (image && fits(object, image->program_headers())) object.rows = image->program_headers();
  }

  static bool fits(const Object& object, const Headers& rows) {
    const Elf64_Phdr* const dynamic = elfcore::find(rows, PT_DYNAMIC);
    return dynamic && object.bias + dynamic->p_vaddr == object.anchor;
  }

  void add(const Object& object) {
    if (object.rows.empty()) {
      add_run(object);
      return;
    }
    std::uint64_t covered = 0;
    for (const Elf64_Phdr& row : object.rows) {
      if (row.p_type != PT_LOAD || row.p_filesz == 0) continue;
      if (row.p_vaddr > UINT64_MAX - row.p_filesz) continue;
      const std::uint64_t first = object.bias + row.p_vaddr;
      const std::uint64_t start = down(first);
      const std::uint64_t end = up(first + row.p_filesz);
      if (end <= start || start < covered) continue;
      // Rows of segments of the core, not of the file: RELRO splits one, and gaps are not ours.
      result_.push_back({start, end, down(row.p_offset), object.path});
      covered = end;
    }
  }

  bool is_taken(const Segment& segment) const {
    return std::any_of(result_.begin(), result_.end(), [&](const LoadedFile& row) {
      return segment.start < row.end && row.start < segment.end();
    });
  }

  // Without program headers, the segments around the anchor: down to the one with code, or to the
  // headers below it, and the data right above what the loader has made read-only.
  void add_run(const Object& object) {
    const Segment* segment = core_.segment_at(object.anchor);
    if (!segment) {
      add_left_out(object);
      return;
    }
    std::vector<const Segment*> run;
    const Segment* const data = core_.segment_above(segment->start);
    const bool is_split = !(segment->flags & (kWrite | kExecute)) && data &&
                          data->start == segment->end() && (data->flags & kWrite);
    if (is_split && !is_taken(*data)) run.push_back(data);
    bool has_code = false;
    for (unsigned i = 0; segment && i < kMaxSegments; ++i) {
      if (is_taken(*segment)) break;
      run.push_back(segment);
      has_code |= (segment->flags & kExecute) != 0;
      const std::uint64_t start = segment->start;
      segment = core_.segment_below(start);
      if (has_code && !(segment && segment->end() == start && segment->start == object.bias)) break;
      if (segment && start - segment->end() > kMaxGap) segment = nullptr;
    }
    if (!has_code) return;
    const std::uint64_t lowest = run.back()->start;
    const std::uint64_t origin = object.bias != 0 && object.bias <= lowest ? object.bias : lowest;
    for (auto row = run.rbegin(); row != run.rend(); ++row) {
      result_.push_back({(*row)->start, (*row)->end(), (*row)->start - origin, object.path});
    }
  }

  // gcore of gdb 7 leaves out clean pages, as if nothing were mapped there. The program is all that
  // lies between its headers and its data.
  void add_left_out(const Object& object) {
    const std::uint64_t headers = core_.auxv(AT_PHDR).value_or(object.anchor);
    const std::uint64_t start = down(std::min(headers, object.anchor));
    const Segment* const data = core_.segment_above(object.anchor);
    if (!data || data->start - start > kMaxGap) return;
    result_.push_back({start, data->start, 0, object.path});
  }

  // NT_FILE of gdb 7 has rows for what it dumped alone: the data of each library. Its code lies
  // right below: where the file says, or, without the file, up to what else is mapped.
  void add_code_below_data() {
    const auto& files = core_.files();
    for (std::size_t i = 0; i < files.size(); ++i) {
      const FileMapping& row = files[i];
      if (row.offset == 0 || (i > 0 && files[i - 1].path == row.path)) continue;
      const std::uint64_t before = i > 0 ? files[i - 1].end : 0;
      const auto image = open(sysroot_ + std::string(row.path));
      if (image) {
        add_text(row, image->program_headers());
        continue;
      }
      constexpr std::uint64_t kGap = std::uint64_t{2} << 20;
      const std::uint64_t reach = row.offset + kGap;
      if (row.start < reach) continue;
      std::uint64_t start = std::max(row.start - reach, before);
      if (const Segment* const below = core_.segment_below(row.start)) {
        start = std::max(start, below->end());
      }
      if (start < row.start) result_.push_back({start, row.start, 0, std::string(row.path)});
    }
  }

  // The code of a file of which one row is known; nothing if that is not a row of the file.
  void add_text(const FileMapping& known, const Headers& rows) {
    Object object;
    object.path = known.path;
    for (const Elf64_Phdr& row : rows) {
      if (row.p_type != PT_LOAD || !(row.p_flags & PF_W)) continue;
      if (down(row.p_offset) != known.offset) continue;
      object.bias = known.start - down(row.p_vaddr);
      for (const Elf64_Phdr& other : rows) {
        if (other.p_type == PT_LOAD && !(other.p_flags & PF_W)) object.rows.push_back(other);
      }
      if (!object.rows.empty()) add(object);
      return;
    }
  }

  const Core& core_;
  std::string given_, sysroot_;
  std::uint64_t page_ = 4096;
  Object program_;
  std::unordered_map<std::string, std::shared_ptr<const Image>> opened_;
  std::vector<LoadedFile> result_;
};

}  // namespace

std::vector<LoadedFile> find_loaded_files(const Core& core, const std::string& executable,
                                          const std::string& sysroot) {
  return Loaded(core, executable, sysroot).find();
}

}  // namespace pm::elfcore
