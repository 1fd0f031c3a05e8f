#include "cudacore/amd.h"

#include <elf.h>

#include <algorithm>

namespace pm::cudacore {
namespace {

constexpr std::uint16_t kMachine = 224;   // EM_AMDGPU
constexpr std::uint32_t kCoreState = 33;  // NT_AMDGPU_CORE_STATE
constexpr std::uint32_t kMaxRows = 4096;  // agents, queues
constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kMaxPages = 1 << 20;  // that are looked at for code
constexpr std::size_t kMaxCode = 4096;

std::uint64_t aligned(std::uint64_t size) { return (size + 7) & ~std::uint64_t{7}; }

// struct kfd_dbg_device_info_entry and kfd_queue_snapshot_entry, linux/kfd_ioctl.h.
AmdAgent agent_of(Bytes row) {
  const auto word = [row](std::uint64_t at) { return load<std::uint32_t>(row, at).value_or(0); };
  return {load<std::uint64_t>(row, 0).value_or(0),
          word(56),
          word(60),
          word(64),
          word(68),
          word(88),
          word(92),
          word(96)};
}

AmdQueue queue_of(Bytes row) {
  const auto word = [row](std::uint64_t at) { return load<std::uint32_t>(row, at).value_or(0); };
  const auto wide = [row](std::uint64_t at) { return load<std::uint64_t>(row, at).value_or(0); };
  return {wide(0), word(40), word(44), word(52), wide(32), word(56)};
}

class AmdReader {
 public:
  AmdReader(Bytes file, AmdCore& core) : file_(file), core_(core) {}

  void read() {
    const auto header = load<Elf64_Ehdr>(file_, 0);
    if (!header || as_text(clip(file_, 0, SELFMAG)) != ELFMAG ||
        header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
        header->e_type != ET_CORE || header->e_phentsize != sizeof(Elf64_Phdr)) {
      throw EvidenceError("no core of an AMD GPU");
    }
    bool found = false;
    std::uint64_t pages = 0;
    core_.size_bytes = core_.expected_bytes = file_.size();
    for (std::uint64_t i = 0; i < header->e_phnum; ++i) {
      const auto row = load<Elf64_Phdr>(file_, header->e_phoff + i * sizeof(Elf64_Phdr));
      if (!row) break;
      if (row->p_offset <= UINT64_MAX - row->p_filesz) {
        core_.expected_bytes = std::max(core_.expected_bytes, row->p_offset + row->p_filesz);
      }
      const Bytes content = clip(file_, row->p_offset, row->p_filesz);
      if (row->p_type == PT_NOTE && !found) found = read_notes(content);
      if (row->p_type == PT_LOAD) {
        core_.memory_bytes += content.size();
        find_code(content, row->p_vaddr, pages);
      }
    }
    if (!found) throw EvidenceError("a core of an AMD GPU without the note of its state");
    if (core_.expected_bytes > file_.size()) {
      core_.problems.add("memory", "the core is cut: " + std::to_string(file_.size()) + " of " +
                                       std::to_string(core_.expected_bytes) + " bytes are there");
    }
  }

 private:
  bool read_notes(Bytes notes) {
    Cursor cursor(notes);
    while (cursor.left() >= sizeof(Elf64_Nhdr)) {
      const auto header = cursor.get<Elf64_Nhdr>();
      const Bytes name = cursor.take((header.n_namesz + std::uint64_t{3}) & ~std::uint64_t{3});
      const Bytes content = clip(notes, cursor.offset(), header.n_descsz);
      cursor.skip((header.n_descsz + std::uint64_t{3}) & ~std::uint64_t{3});
      if (header.n_type == kCoreState && c_string(name, 0) == "AMDGPU") {
        read_state(content, header.n_descsz);
        return true;
      }
    }
    return false;
  }

  void read_state(Bytes state, std::uint64_t promised) {
    Cursor cursor(state);
    core_.note_version = cursor.u64();
    core_.driver_major = cursor.u32();
    core_.driver_minor = cursor.u32();
    const std::uint64_t runtime_bytes = cursor.u64();
    const std::uint32_t agents = cursor.u32(), agent_bytes = cursor.u32();
    const std::uint32_t queues = cursor.u32(), queue_bytes = cursor.u32();
    cursor.skip(aligned(std::min<std::uint64_t>(runtime_bytes, state.size())));
    for (std::uint32_t i = 0; i < std::min(agents, kMaxRows); ++i) {
      const Bytes row = cursor.take(agent_bytes);
      if (!cursor.ok()) break;
      core_.agents.push_back(agent_of(row));
    }
    // Each part ends at a multiple of eight.
    cursor.skip(aligned(cursor.offset()) - cursor.offset());
    for (std::uint32_t i = 0; i < std::min(queues, kMaxRows); ++i) {
      const Bytes row = cursor.take(queue_bytes);
      if (!cursor.ok()) break;
      core_.queues.push_back(queue_of(row));
    }
    if (state.size() < promised || core_.agents.size() < agents || core_.queues.size() < queues) {
      core_.problems.add("state of the GPUs", "is cut: " + std::to_string(core_.agents.size()) +
                                                  " of " + std::to_string(agents) + " GPUs and " +
                                                  std::to_string(core_.queues.size()) + " of " +
                                                  std::to_string(queues) + " queues are told");
    }
  }

  // Loaded code begins with its ELF header, at the begin of a page.
  void find_code(Bytes memory, std::uint64_t address, std::uint64_t& pages) {
    for (std::uint64_t at = 0; at < memory.size() && pages < kMaxPages; at += kPage, ++pages) {
      const auto header = load<Elf64_Ehdr>(memory, at);
      if (!header) return;
      if (as_text(clip(memory, at, SELFMAG)) == ELFMAG && header->e_machine == kMachine &&
          core_.code_objects.size() < kMaxCode) {
        core_.code_objects.push_back(address + at);
      }
    }
  }

  Bytes file_;
  AmdCore& core_;
};

}  // namespace

AmdCore read_amd_core(Bytes file) {
  AmdCore core;
  AmdReader(file, core).read();
  return core;
}

}  // namespace pm::cudacore
