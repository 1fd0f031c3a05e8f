#include "elfcore/modules.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/underway.h"
#include "elfcore/loaded_files.h"

namespace pm::elfcore {
namespace {

constexpr std::string_view kDeleted = " (deleted)";
constexpr std::uint64_t kHeaderBytes = 4096;

bool is_regular_file(const std::string& path) {
  const underway::Opening opening(path);  // on a dead file server this waits already
  struct stat status{};
  return !opening.refused() && stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

// Program headers of a module as they stood in memory: the first page of every ELF mapping is
// dumped (bit 4 of coredump_filter), the rest of its text is not.
std::vector<Elf64_Phdr> dumped_program_headers(const Core& core, const Module& module) {
  std::vector<Elf64_Phdr> rows;
  const Bytes first = core.dumped_at(module.start);
  const auto header = load<Elf64_Ehdr>(first, 0);
  if (!header || !is_elf(first) || header->e_phentsize != sizeof(Elf64_Phdr)) return rows;
  constexpr std::uint64_t kLimit = 256;  // ld.so and the kernel expect about a dozen
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(header->e_phnum, kLimit); ++i) {
    const auto row = load<Elf64_Phdr>(first, header->e_phoff + i * sizeof(Elf64_Phdr));
    if (!row) break;
    rows.push_back(*row);
  }
  return rows;
}

// A mapping's page of the file holds the page-aligned start of one PT_LOAD: that gives the bias.
std::optional<std::uint64_t> find_bias(const Module& module, std::span<const Elf64_Phdr> rows,
                                       std::uint64_t page_size) {
  const std::uint64_t mask = ~(page_size - 1);
  for (const FileMapping& mapping : module.mappings) {
    for (const Elf64_Phdr& row : rows) {
      if (row.p_type == PT_LOAD && (row.p_offset & mask) == mapping.offset) {
        return mapping.start - (row.p_vaddr & mask);
      }
    }
  }
  return std::nullopt;
}

bool has_interpreter(std::span<const Elf64_Phdr> rows) {
  return std::any_of(rows.begin(), rows.end(),
                     [](const Elf64_Phdr& row) { return row.p_type == PT_INTERP; });
}

std::optional<std::string> dumped_build_id(const Core& core, const Module& module,
                                           std::span<const Elf64_Phdr> rows) {
  for (const Elf64_Phdr& row : rows) {
    if (row.p_type != PT_NOTE) continue;
    const Bytes notes = clip(core.dumped_at(module.bias + row.p_vaddr), 0, row.p_filesz);
    if (auto id = find_build_id(notes, row.p_align)) return id;
  }
  return std::nullopt;
}

// Without a build ID, a different first page still gives another build away: it holds the program
// headers, and in most files the hashes of the dynamic symbols.
bool same_first_page(const Core& core, const Module& module, const Image& image) {
  const Segment* const segment = core.segment_at(module.start);
  if (segment && (segment->flags & kWrite)) return true;  // it may have changed since
  const Bytes dumped = clip(core.dumped_at(module.start), 0, kHeaderBytes);
  const Bytes on_disk = clip(image.bytes(), module.mappings.front().offset, kHeaderBytes);
  const std::size_t size = std::min(dumped.size(), on_disk.size());
  return std::equal(dumped.begin(), dumped.begin() + static_cast<std::ptrdiff_t>(size),
                    on_disk.begin());
}

// Whether a file's code is as large as what was mapped of it, and at that place in the file. A core
// without headers (coredump_filter 0x1) has no build ID to compare; other builds differ in this.
bool same_code(const Core& core, const Module& module, const Image& image, std::uint64_t bias) {
  const std::uint64_t page = core.page_size(), mask = ~(page - 1);
  for (const Elf64_Phdr& row : image.program_headers()) {
    if (row.p_type != PT_LOAD || !(row.p_flags & PF_X)) continue;
    const std::uint64_t start = bias + (row.p_vaddr & mask);
    const std::uint64_t end = (bias + row.p_vaddr + row.p_filesz + page - 1) & mask;
    const auto is_end = [end](const FileMapping& mapping) { return mapping.end == end; };
    if (std::none_of(module.mappings.begin(), module.mappings.end(), is_end)) return false;
    for (const FileMapping& mapping : module.mappings) {
      const bool is_within = mapping.start < end && start < mapping.end;
      if (is_within && mapping.start - start != mapping.offset - (row.p_offset & mask)) {
        return false;
      }
    }
  }
  return true;
}

// What was mapped as text is ELF even if its first page was not dumped.
bool has_code(const Core& core, const Module& module) {
  return std::any_of(module.mappings.begin(), module.mappings.end(),
                     [&](const FileMapping& mapping) {
                       const Segment* const segment = core.segment_at(mapping.start);
                       if (!segment) return mapping.inferred;
                       return (segment->flags & kExecute) != 0;
                     });
}

bool absent_from_segments(const Core& core, const Module& module) {
  return std::any_of(
      module.mappings.begin(), module.mappings.end(),
      [&](const FileMapping& mapping) { return core.segment_at(mapping.start) == nullptr; });
}

// Whether the program headers of a module, as dumped, map a row of NT_FILE.
bool is_mapped_by(const Core& core, const Module& module, const FileMapping& next) {
  const std::vector<Elf64_Phdr> rows = dumped_program_headers(core, module);
  const auto bias = find_bias(module, rows, core.page_size());
  const std::uint64_t mask = ~(core.page_size() - 1);
  return bias && std::any_of(rows.begin(), rows.end(), [&](const Elf64_Phdr& row) {
           return row.p_type == PT_LOAD && (row.p_offset & mask) == next.offset &&
                  *bias + (row.p_vaddr & mask) == next.start;
         });
}

// Whether a row continues the module of the row before it. RELRO splits one page range into two
// rows of the same offset, which is 0 in libraries that patchelf has rewritten (torch/_C.so). Where
// a file is shorter than a page, old linkers map it twice from offset 0, for text and, 2 MiB
// above, for data. Segments that are aligned to more than a page leave a hole that is mapped and
// may not be touched (aarch64: 64 KiB); its row has a larger offset than that of the data behind
// it.
bool goes_on(const Core& core, const Module& module, const FileMapping& next) {
  const FileMapping& last = module.mappings.back();
  if (next.offset != last.offset) {
    return next.offset > last.offset || (next.offset != 0 && next.start == last.end);
  }
  if (next.offset != 0 || next.start == last.end) return true;
  if (is_mapped_by(core, module, next)) return true;
  constexpr std::uint64_t kMaxGap = std::uint64_t{4} << 20;
  const Segment* const segment = core.segment_at(next.start);
  return has_code(core, module) && next.start - last.end < kMaxGap && segment &&
         (segment->flags & kWrite) && !(segment->flags & kExecute) &&
         load<Elf64_Ehdr>(core.dumped_at(module.start), 0) == std::nullopt;
}

// The pages that a dynamic section starts in hold what the linker laid out and what ld.so filled
// in; the tags and the sizes are those of the file, the addresses are so or moved by the bias.
bool same_dynamic_section(const Core& core, const Module& module, const Image& image,
                          std::uint64_t bias) {
  const Elf64_Phdr* const dynamic = image.program_header(PT_DYNAMIC);
  if (!dynamic || module.mappings.empty()) return true;
  Cursor here(image.at(dynamic->p_vaddr));
  const std::uint64_t address = bias + dynamic->p_vaddr;
  Cursor there(clip(core.dumped_at(address), 0, dynamic->p_memsz));
  constexpr unsigned kTags = 256;
  for (unsigned i = 0; i < kTags; ++i) {
    if (here.left() < sizeof(Elf64_Dyn) || there.left() < sizeof(Elf64_Dyn)) return true;
    const auto on_disk = here.get<Elf64_Dyn>(), dumped = there.get<Elf64_Dyn>();
    if (on_disk.d_tag != dumped.d_tag) return false;
    if (on_disk.d_tag == DT_NULL) return true;
    if (on_disk.d_tag == DT_DEBUG || on_disk.d_tag >= DT_LOPROC) continue;
    if (dumped.d_un.d_val != on_disk.d_un.d_val && dumped.d_un.d_val != on_disk.d_un.d_val + bias) {
      return false;
    }
  }
  return true;
}

// What lies at the start of its rows without any file of the build: of a program that is not
// position-independent the link-time address, of all others the distance from the file's start.
std::uint64_t bias_by_rows(const Module& module) {
  constexpr std::uint64_t kFixed = std::uint64_t{1} << 32;  // PIE and libraries load far above
  if (module.start < kFixed) return 0;
  return module.start - std::min(module.mappings.front().offset, module.start);
}

// Whether some file has a place in memory but no row for its code, as gcore of gdb 7 leaves it.
bool lacks_code(const Core& core) {
  const auto& files = core.files();
  for (std::size_t i = 0; i < files.size();) {
    bool code = false, data = false;
    const std::string_view path = files[i].path;
    for (; i < files.size() && files[i].path == path; ++i) {
      const Segment* const segment = core.segment_at(files[i].start);
      code |= segment == nullptr || (segment->flags & kExecute);
      data |= segment != nullptr;
    }
    if (data && !code && !path.starts_with("/dev/")) return true;
  }
  return files.empty();
}

}  // namespace

Modules::Modules(Core& core, const ModuleOptions& options) {
  const std::uint64_t vdso = core.auxv(AT_SYSINFO_EHDR).value_or(0);
  const Segment* const segment = vdso && !core.file_at(vdso) ? core.segment_at(vdso) : nullptr;
  if (segment) {
    foreign_start_ = segment->start;
    foreign_end_ = segment->end();
  }
  if (lacks_code(core)) {
    core.add_files(find_loaded_files(core, options.executable, options.sysroot));
  }
  find(core);
  open_files(core, options);
  if (!executable_ && !options.executable.empty()) {
    core.problems().add(options.executable,
                        "given as the executable, but the core does not say where its program was "
                        "loaded: it is not used");
  }
  on_disk_.clear();
}

// Neighbouring rows of one path are one module; a row that starts the file anew starts a new one
// (the same library may be mapped twice, by dlmopen or by a copy under the same name).
void Modules::find(const Core& core) {
  for (const FileMapping& mapping : core.files()) {
    const bool deleted = mapping.path.ends_with(kDeleted);
    std::string_view path = mapping.path;
    if (deleted) path.remove_suffix(kDeleted.size());
    if (!modules_.empty() && modules_.back().path == path &&
        goes_on(core, modules_.back(), mapping)) {
      modules_.back().end = std::max(modules_.back().end, mapping.end);
      modules_.back().mappings.push_back(mapping);
      continue;
    }
    Module module;
    module.path = path;
    module.deleted = deleted;
    module.start = mapping.start;
    module.end = mapping.end;
    module.mappings.push_back(mapping);
    modules_.push_back(std::move(module));
  }
  std::erase_if(modules_, [&](const Module& module) {
    const Bytes first = core.dumped_at(module.start);
    if (!first.empty()) return !is_elf(first) && !has_code(core, module);
    // gcore leaves clean file pages out, headers too: the file itself must tell, later.
    return !has_code(core, module) && !absent_from_segments(core, module);
  });
}

void Modules::open_files(Core& core, const ModuleOptions& options) {
  const std::uint64_t headers = core.auxv(AT_PHDR).value_or(0);
  const std::uint64_t entry = core.auxv(AT_ENTRY).value_or(0);
  for (std::size_t i = 0; i < modules_.size() && !executable_; ++i) {
    if (modules_[i].contains(headers) || modules_[i].contains(entry)) executable_ = i;
  }
  for (std::size_t i = 0; headers == 0 && i < modules_.size() && !executable_; ++i) {
    if (has_interpreter(dumped_program_headers(core, modules_[i]))) executable_ = i;
  }
  for (std::size_t i = 0; i < modules_.size(); ++i) {
    Module& module = modules_[i];
    const std::vector<Elf64_Phdr> rows = dumped_program_headers(core, module);
    if (const auto bias = find_bias(module, rows, core.page_size())) {
      module.bias = *bias;
      module.build_id = dumped_build_id(core, module, rows);
    } else {
      module.bias = bias_by_rows(module);
    }
    const bool given = executable_ == i && !options.executable.empty();
    if (given) {
      take_executable(module, core, options.executable);
    }
    if (!given || !module.image) compare(module, core, options.sysroot + module.path);
  }
  const std::uint64_t main_start = executable_ ? modules_[*executable_].start : 0;
  std::erase_if(modules_, [&](const Module& module) {
    return !has_code(core, module) && !module.build_id && !module.image &&
           !is_elf(core.dumped_at(module.start));
  });
  if (executable_) executable_ = index_at(main_start);
}

const OnDisk& Modules::on_disk(const std::string& path) {
  const auto [found, is_new] = on_disk_.try_emplace(path);
  OnDisk& there = found->second;
  if (!is_new) return there;
  there.regular = is_regular_file(path);
  there.image = Image::open(path, there.error);
  there.readable = there.image || access(path.c_str(), R_OK) == 0;
  return there;
}

void Modules::compare(Module& module, const Core& core, const std::string& disk_path) {
  module.disk_build_id.reset();
  module.disk_path.clear();
  const OnDisk& there = on_disk(disk_path);
  if (!there.regular) {
    module.status = ModuleStatus::missing;
    return;
  }
  const std::shared_ptr<const Image>& image = there.image;
  if (!image && !there.readable) {
    module.status = ModuleStatus::missing;  // whether it is another build cannot be known
    return;
  }
  if (!image) {
    // Something is there, but no ELF file (an emptied file, a script put in its place).
    module.status = module.build_id ? ModuleStatus::mismatch : ModuleStatus::missing;
    return;
  }
  module.disk_path = disk_path;
  module.disk_build_id = image->build_id();
  if (module.build_id && image->build_id()) {
    module.status =
        *module.build_id == *image->build_id() ? ModuleStatus::ok : ModuleStatus::mismatch;
  } else if (image->machine() != static_cast<std::uint16_t>(core.machine()) ||
             (module.build_id && !image->build_id()) || !same_first_page(core, module, *image)) {
    module.status = ModuleStatus::mismatch;
  } else {
    module.status = ModuleStatus::unverified;
  }
  const auto bias = find_bias(module, image->program_headers(), core.page_size());
  const bool is_told = core.dumped_at(module.start).empty() && module.mappings.size() > 1 &&
                       !module.mappings.front().inferred;
  if (module.status == ModuleStatus::unverified && bias &&
      (!same_dynamic_section(core, module, *image, *bias) ||
       (is_told && !same_code(core, module, *image, *bias)))) {
    module.status = ModuleStatus::mismatch;
  }
  if (module.status == ModuleStatus::mismatch) return;
  if (bias) module.bias = *bias;
  module.image = image;
}

// The program that the user says it was. If its build ID says otherwise, both IDs are told and the
// core's own idea of its executable is tried instead.
void Modules::take_executable(Module& module, Core& core, const std::string& path) {
  const OnDisk& there = on_disk(path);
  const std::shared_ptr<const Image>& image = there.image;
  if (!image) {
    core.problems().add(path, "given as the executable, but " + there.error,
                        "give the interpreter that ran, for example --python \"$(which python)\"");
    return;
  }
  compare(module, core, path);
  if (module.status != ModuleStatus::mismatch) return;
  core.problems().add(
      path,
      "is not the program that crashed: " +
          (image->build_id() || module.build_id
               ? "its build ID is " + image->build_id().value_or("unknown") + ", the core's is " +
                     module.build_id.value_or("unknown")
               : std::string("its beginning differs from what was mapped of it")) +
          " (" + module.path + ")",
      "activate the environment that the job ran in, and give its interpreter with --python");
}

const Module* Modules::at(std::uint64_t address) const noexcept {
  const auto index = index_at(address);
  return index ? &modules_[*index] : nullptr;
}

std::optional<std::size_t> Modules::index_at(std::uint64_t address) const noexcept {
  if (address >= foreign_start_ && address < foreign_end_) return std::nullopt;
  const auto above =
      std::upper_bound(modules_.begin(), modules_.end(), address,
                       [](std::uint64_t value, const Module& m) { return value < m.start; });
  if (above == modules_.begin()) return std::nullopt;
  const auto candidate = std::prev(above);
  if (!candidate->contains(address)) return std::nullopt;
  return static_cast<std::size_t>(candidate - modules_.begin());
}

const Module* Modules::executable() const noexcept {
  return executable_ ? &modules_[*executable_] : nullptr;
}

const Module* Modules::named(std::string_view prefix) const noexcept {
  const auto found = std::find_if(modules_.begin(), modules_.end(), [prefix](const Module& m) {
    return m.name().starts_with(prefix);
  });
  return found == modules_.end() ? nullptr : &*found;
}

}  // namespace pm::elfcore
