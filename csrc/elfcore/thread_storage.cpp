#include "elfcore/thread_storage.h"

#include <algorithm>

namespace pm::elfcore {
namespace {

constexpr std::uint64_t kMaxRelocations = 1u << 20;
constexpr std::uint64_t kMaxModules = 1u << 20;
constexpr std::uint64_t kMaxStatic = 1u << 24;  // static TLS of a thread

enum class Model { module_number, thread_offset, descriptor };

struct Slot {
  Model model;
  std::uint64_t address = 0;
  std::int64_t addend = 0;
};

std::optional<Model> model_of(Machine machine, std::uint32_t type) {
  if (machine == Machine::x86_64) {
    if (type == R_X86_64_DTPMOD64) return Model::module_number;
    if (type == R_X86_64_TPOFF64) return Model::thread_offset;
    if (type == R_X86_64_TLSDESC) return Model::descriptor;
    return std::nullopt;
  }
  constexpr std::uint32_t kModule = 1028, kOffset = 1030, kDescriptor = 1031;
  if (type == kModule) return Model::module_number;
  if (type == kOffset) return Model::thread_offset;
  if (type == kDescriptor) return Model::descriptor;
  return std::nullopt;
}

struct RelocationTables {
  std::uint64_t rela = 0, rela_size = 0, relative = 0, plt = 0, plt_size = 0;
};

RelocationTables find_tables(const Image& image) {
  RelocationTables found;
  const Elf64_Phdr* const dynamic = image.program_header(PT_DYNAMIC);
  if (!dynamic) return found;
  Cursor cursor(clip(image.bytes(), dynamic->p_offset, dynamic->p_filesz));
  while (cursor.left() >= sizeof(Elf64_Dyn)) {
    const auto row = cursor.get<Elf64_Dyn>();
    if (row.d_tag == DT_NULL) break;
    if (row.d_tag == DT_RELA) found.rela = row.d_un.d_ptr;
    if (row.d_tag == DT_RELASZ) found.rela_size = row.d_un.d_val;
    if (row.d_tag == DT_RELACOUNT) found.relative = row.d_un.d_val;
    if (row.d_tag == DT_JMPREL) found.plt = row.d_un.d_ptr;
    if (row.d_tag == DT_PLTRELSZ) found.plt_size = row.d_un.d_val;
  }
  return found;
}

void collect(Bytes table, const Module& module, Machine machine, std::vector<Slot>& slots) {
  for (std::uint64_t i = 0; i < kMaxRelocations && slots.size() < 16; ++i) {
    const auto row = load<Elf64_Rela>(table, i * sizeof(Elf64_Rela));
    if (!row) break;
    if (ELF64_R_SYM(row->r_info) != 0) continue;
    const auto model = model_of(machine, static_cast<std::uint32_t>(ELF64_R_TYPE(row->r_info)));
    if (model) slots.push_back({*model, module.bias + row->r_offset, row->r_addend});
  }
}

std::vector<Slot> find_slots(const Module& module, Machine machine) {
  std::vector<Slot> slots;
  const RelocationTables tables = find_tables(*module.image);
  // Relative relocations, the bulk of them, come first (DT_RELACOUNT).
  const std::uint64_t skip = std::min<std::uint64_t>(tables.relative, kMaxRelocations) * 24;
  Bytes table = clip(module.image->at(tables.rela), 0, tables.rela_size);
  collect(clip(table, skip, table.size()), module, machine, slots);
  collect(clip(module.image->at(tables.plt), 0, tables.plt_size), module, machine, slots);
  return slots;
}

// The dtv: glibc keeps {pointer, to_free} pairs behind a counter, musl bare pointers.
std::optional<std::uint64_t> block_of(const Memory& memory, const ThreadState& thread,
                                      std::uint64_t number) {
  if (number == 0 || number > kMaxModules) return std::nullopt;
  const bool is_x86 = memory.core().machine() == Machine::x86_64;
  const bool is_musl = memory.modules().named("ld-musl") != nullptr;
  if (is_musl && !is_x86) return std::nullopt;
  const auto vector = memory.word(thread.tls + (is_x86 ? 8 : 0));
  if (!vector) return std::nullopt;
  const auto count = memory.word(is_musl ? *vector : *vector - 16);
  if (!count || number > *count) return std::uint64_t{0};
  const auto block = memory.word(*vector + (is_musl ? 8 : 16) * number);
  if (!block) return std::nullopt;
  return *block == UINT64_MAX ? 0 : *block;  // TLS_DTV_UNALLOCATED
}

struct Place {
  bool known = false;
  std::uint64_t address = 0;  // 0: the thread has no block
};

Place place_of(const Memory& memory, const ThreadState& thread, const Slot& slot) {
  const auto word = memory.word(slot.address);
  if (!word) return {};
  const auto dynamic = [&](std::uint64_t number, std::uint64_t offset) -> Place {
    const auto block = block_of(memory, thread, number);
    if (!block) return {};
    return {true, *block == 0 ? 0 : *block + offset};
  };
  const auto is_near = [](std::uint64_t offset) {
    const auto distance = static_cast<std::int64_t>(offset);
    return distance != 0 && distance > -std::int64_t{kMaxStatic} &&
           distance < std::int64_t{kMaxStatic};
  };
  switch (slot.model) {
    case Model::module_number:
      return dynamic(*word, memory.word(slot.address + 8).value_or(0));
    case Model::thread_offset:
      if (!is_near(*word)) return {};
      return {true, thread.tls + *word};
    case Model::descriptor:
      break;
  }
  // Resolved to {function, argument}: the argument is a distance in static TLS, or points to
  // struct tlsdesc_dynamic_arg { {module, offset}, generation }.
  const auto argument = memory.word(slot.address + 8);
  if (!argument) return {};
  if (is_near(*argument)) return {true, thread.tls + *argument};
  const auto number = memory.word(*argument);
  const auto offset = memory.word(*argument + 8);
  if (!number || !offset || *offset > kMaxStatic) return {};
  return dynamic(*number, *offset);
}

}  // namespace

ThreadStorage find_thread_storage(const Memory& memory, const Module& module,
                                  const ThreadState& thread) {
  ThreadStorage result;
  if (!module.image || thread.tls == 0) return result;
  for (const Slot& slot : find_slots(module, memory.core().machine())) {
    const Place place = place_of(memory, thread, slot);
    result.known |= place.known;
    if (!place.known || place.address == 0) continue;
    if (std::find(result.blocks.begin(), result.blocks.end(), place.address) ==
        result.blocks.end()) {
      result.blocks.push_back(place.address);
    }
  }
  return result;
}

}  // namespace pm::elfcore
