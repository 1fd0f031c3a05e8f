// The registers of one frame, numbered as DWARF numbers them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "elfcore/registers.h"

namespace pm::unwind {

using elfcore::Machine;

// Columns that a walk needs. x86-64: 0-15 general, 16 return address (System V ABI AMD64, figure
// 3.36). aarch64: 0-30 general, 31 stack pointer, 32 program counter ("DWARF for the Arm 64-bit
// Architecture", section 4.1). Vector registers never say where a caller is.
inline constexpr std::size_t kColumns = 33;

inline constexpr std::size_t sp_column(Machine machine) noexcept {
  return machine == Machine::x86_64 ? 7 : 31;
}
inline constexpr std::size_t fp_column(Machine machine) noexcept {
  return machine == Machine::x86_64 ? 6 : 29;
}
inline constexpr std::size_t kLinkColumn = 30;  // aarch64: x30 holds the return address

struct Context {
  Machine machine = Machine::x86_64;
  std::uint64_t pc = 0;
  std::array<std::uint64_t, kColumns> values{};

  std::uint64_t sp() const noexcept { return values[sp_column(machine)]; }
  std::uint64_t fp() const noexcept { return values[fp_column(machine)]; }
  void set_sp(std::uint64_t value) noexcept { values[sp_column(machine)] = value; }
  void set_fp(std::uint64_t value) noexcept { values[fp_column(machine)] = value; }

  static Context of(const elfcore::Registers& registers) noexcept {
    // rax rdx rcx rbx rsi rdi rbp rsp r8-r15 as indexes into user_regs_struct.
    constexpr std::array<std::size_t, 16> kOrderX86{10, 12, 11, 5, 13, 14, 4, 19,
                                                    9,  8,  7,  6, 3,  2,  1, 0};
    Context context;
    context.machine = registers.machine;
    context.pc = registers.pc();
    if (registers.machine == Machine::x86_64) {
      for (std::size_t i = 0; i < kOrderX86.size(); ++i) {
        context.values[i] = registers.values[kOrderX86[i]];
      }
      context.values[16] = context.pc;
    } else {
      for (std::size_t i = 0; i < 32; ++i) context.values[i] = registers.values[i];
      context.values[32] = context.pc;
    }
    return context;
  }
};

}  // namespace pm::unwind
