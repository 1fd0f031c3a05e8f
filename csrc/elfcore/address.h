// The address space in words: what an address belongs to, and how much memory of which kind.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "elfcore/modules.h"

namespace pm::elfcore {

struct AddressFacts {
  std::uint64_t value = 0;
  bool mapped = false;
  std::optional<std::uint64_t> start, end;
  std::string permissions;  // "r-x"; empty: unknown
  std::string_view kind;    // empty: not mapped
  std::string path;         // with the kernel's " (deleted)"
  std::optional<std::uint64_t> file_offset;
  std::optional<std::uint64_t> above_start, below_end;
  std::string_view above_kind;
};

struct MemoryKind {
  std::string_view kind;
  std::uint64_t mapped = 0;
  std::uint64_t dumped = 0;
};

class AddressSpace {
 public:
  // `interrupted` is the stack pointer of a thread that is on another stack now (sigaltstack(2)).
  explicit AddressSpace(const Memory& memory, std::optional<std::uint64_t> interrupted = {});

  AddressFacts describe(std::uint64_t address) const;
  // One of the kinds of facts/memory.py, for a segment of the core.
  std::string_view kind_of(const Segment& segment) const;
  // Largest first.
  std::vector<MemoryKind> totals() const;

 private:
  void find_stacks();
  void add_stack_pointer(std::uint64_t sp);
  void find_data_ends();
  void find_heap();
  bool has_stack_pointer(const Segment& segment) const;
  const Module* module_with_data_at(std::uint64_t address) const;

  const Memory& memory_;
  const Core& core_;
  std::uint64_t main_stack_ = 0;  // an address in it; 0: unknown
  std::vector<std::uint64_t> stack_pointers_;
  // Zero-initialised data behind the last file mapping of a module: [file's end, end in memory).
  std::map<std::uint64_t, std::pair<std::uint64_t, const Module*>> data_;
  std::uint64_t heap_start_ = 0, heap_end_ = 0;
};

}  // namespace pm::elfcore
