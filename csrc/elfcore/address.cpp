#include "elfcore/address.h"

#include <elf.h>

#include <algorithm>

namespace pm::elfcore {
namespace {

constexpr std::string_view kStack = "stack", kThreadStack = "thread stack", kHeap = "heap",
                           kAnonymous = "anonymous", kFile = "file", kModule = "module",
                           kShared = "shared memory", kDevice = "device", kVdso = "vdso";

constexpr std::uint64_t kVsyscall = 0xffffffffff600000;
// brk starts at a random distance above the program: at most 32 MiB on x86-64, 1 GiB on aarch64
// (arch_randomize_brk).
constexpr std::uint64_t kHeapDistance = std::uint64_t{1} << 30;

// Shared memory has a file name that the kernel invents, or one under a tmpfs made for it.
bool is_shared_memory(std::string_view path) {
  for (const std::string_view prefix : {"/dev/shm/", "/run/shm/", "/memfd:", "/SYSV", "/dev/zero",
                                        "/dev/hugepages/", "/anon_hugepage"}) {
    if (path.starts_with(prefix)) return true;
  }
  return false;
}

bool is_device(std::string_view path) {
  return path.starts_with("/dev/") || path.starts_with("anon_inode:") ||
         path.starts_with("/dmabuf") || path.starts_with("socket:") || path.starts_with("/sys/") ||
         path.starts_with("/proc/");
}

std::string permission_text(std::uint32_t flags) {
  std::string text = "---";
  if (flags & kRead) text[0] = 'r';
  if (flags & kWrite) text[1] = 'w';
  if (flags & kExecute) text[2] = 'x';
  return text;
}

}  // namespace

AddressSpace::AddressSpace(const Memory& memory, std::optional<std::uint64_t> interrupted)
    : memory_(memory), core_(memory.core()) {
  if (interrupted) add_stack_pointer(*interrupted);
  find_stacks();
  find_data_ends();
  find_heap();
}

void AddressSpace::find_stacks() {
  for (const std::uint64_t type : {AT_RANDOM + 0UL, AT_EXECFN + 0UL, AT_PLATFORM + 0UL}) {
    const auto address = core_.auxv(type);
    const Segment* const segment = address ? core_.segment_at(*address) : nullptr;
    if (!segment || !(segment->flags & kWrite)) continue;
    main_stack_ = segment->start;
    break;
  }
  for (const ThreadState& thread : core_.threads()) {
    add_stack_pointer(thread.registers.sp());
  }
  std::sort(stack_pointers_.begin(), stack_pointers_.end());
}

void AddressSpace::add_stack_pointer(std::uint64_t sp) {
  const Segment* const segment = core_.segment_at(sp);
  // In a guard page: the stack that has overflown begins above it.
  const bool in_guard = segment && !(segment->flags & (kRead | kWrite | kExecute));
  stack_pointers_.push_back(in_guard ? segment->end() : sp);
}

void AddressSpace::find_data_ends() {
  for (const Module& module : memory_.modules().all()) {
    if (!module.image) continue;
    std::uint64_t end = 0;
    for (const Elf64_Phdr& row : module.image->program_headers()) {
      if (row.p_type == PT_LOAD && row.p_memsz <= UINT64_MAX - row.p_vaddr) {
        end = std::max<std::uint64_t>(end, row.p_vaddr + row.p_memsz);
      }
    }
    end = module.bias + ((end + core_.page_size() - 1) & ~(core_.page_size() - 1));
    if (end > module.end) data_[module.end] = {end, &module};
  }
}

const Module* AddressSpace::module_with_data_at(std::uint64_t address) const {
  auto next = data_.upper_bound(address);
  if (next == data_.begin()) return nullptr;
  --next;
  return address < next->second.first ? next->second.second : nullptr;
}

// The first anonymous writable memory above the program and its zero-initialised data, if nothing
// else was mapped between.
void AddressSpace::find_heap() {
  const Module* const executable = memory_.modules().executable();
  if (!executable) return;
  std::uint64_t end = executable->end;
  if (const auto data = data_.find(end); data != data_.end()) end = data->second.first;
  const Segment* segment = core_.segment_at(end - 1);
  if (!segment || segment->end() <= end) segment = core_.segment_above(end - 1);
  // Without the program's file the size of its data is unknown; what touches it is that data.
  if (segment && !executable->image && segment->start == executable->end) {
    segment = core_.segment_above(segment->start);
  }
  if (!segment || segment->start > end + kHeapDistance || !(segment->flags & kWrite)) return;
  if (core_.file_at(segment->start) && segment->start >= end) return;
  if (segment->start == main_stack_) return;
  heap_start_ = std::max(segment->start, end);
  heap_end_ = segment->end();
  // Neighbours: parts of the heap with other flags (mlock, transparent huge pages).
  while (const Segment* const next = core_.segment_at(heap_end_)) {
    if (!(next->flags & kWrite) || core_.file_at(next->start) || next->start == main_stack_) break;
    heap_end_ = next->end();
  }
}

bool AddressSpace::has_stack_pointer(const Segment& segment) const {
  const auto found =
      std::lower_bound(stack_pointers_.begin(), stack_pointers_.end(), segment.start);
  return found != stack_pointers_.end() && *found < segment.end();
}

std::string_view AddressSpace::kind_of(const Segment& segment) const {
  if (const FileMapping* const file = core_.file_at(segment.start)) {
    if (is_shared_memory(file->path)) return kShared;
    if (is_device(file->path)) return kDevice;
    return memory_.modules().at(segment.start) ? kModule : kFile;
  }
  if (main_stack_ != 0 && segment.start == main_stack_) return kStack;
  const std::uint64_t vdso = core_.auxv(AT_SYSINFO_EHDR).value_or(0);
  if (vdso != 0 && (segment.contains(vdso) ||
                    // [vvar] and [vvar_vclock], which the vdso reads, end where it begins.
                    (segment.end() <= vdso && vdso - segment.end() <= 4 * core_.page_size() &&
                     segment.flags == kRead))) {
    return kVdso;
  }
  if (segment.start == kVsyscall) return kVdso;
  if (segment.end() > heap_start_ && segment.start < heap_end_) return kHeap;
  if ((segment.flags & kWrite) && has_stack_pointer(segment)) return kThreadStack;
  if (module_with_data_at(segment.start)) return kModule;
  return kAnonymous;
}

AddressFacts AddressSpace::describe(std::uint64_t address) const {
  AddressFacts facts;
  facts.value = address;
  const Segment* const segment = core_.segment_at(address);
  const FileMapping* const file = core_.file_at(address);
  if (segment) {
    facts.mapped = true;
    facts.start = segment->start;
    facts.end = segment->end();
    facts.permissions = permission_text(segment->flags);
    facts.kind = kind_of(*segment);
  } else if (file) {  // gcore leaves clean file mappings out of the segments
    facts.mapped = true;
    facts.start = file->start;
    facts.end = file->end;
    Segment stand_in;
    stand_in.start = file->start;
    stand_in.size = file->end - file->start;
    facts.kind = kind_of(stand_in);
  }
  if (file) {
    facts.path = file->path;
    facts.file_offset = file->offset + (address - file->start);
  } else if (const Module* const module = module_with_data_at(address);
             module && facts.kind == kModule) {
    facts.path = module->path;
  }
  if (const Segment* const above = core_.segment_above(address)) {
    facts.above_start = above->start;
    facts.above_kind = kind_of(*above);
  }
  if (const Segment* const below = core_.segment_below(address)) facts.below_end = below->end();
  return facts;
}

std::vector<MemoryKind> AddressSpace::totals() const {
  std::vector<MemoryKind> rows;
  const auto row_of = [&rows](std::string_view kind) -> MemoryKind& {
    for (MemoryKind& row : rows) {
      if (row.kind == kind) return row;
    }
    return rows.emplace_back(MemoryKind{kind, 0, 0});
  };
  for (const Segment& segment : core_.segments()) {
    MemoryKind& row = row_of(kind_of(segment));
    row.mapped += segment.size;
    row.dumped += segment.present;
  }
  std::stable_sort(rows.begin(), rows.end(), [](const MemoryKind& a, const MemoryKind& b) {
    return a.dumped != b.dumped ? a.dumped > b.dumped : a.mapped > b.mapped;
  });
  return rows;
}

}  // namespace pm::elfcore
