// General registers of a thread, as ELF cores store them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace pm::elfcore {

// e_machine of the ELF header.
enum class Machine : std::uint16_t { x86_64 = 62, aarch64 = 183 };

// `elf_gregset_t`: struct user_regs_struct of arch/x86/include/asm/user_64.h, or user_pt_regs of
// arch/arm64/include/uapi/asm/ptrace.h.
struct Registers {
  static constexpr std::size_t kMax = 34;
  Machine machine = Machine::x86_64;
  std::array<std::uint64_t, kMax> values{};

  std::size_t count() const noexcept { return machine == Machine::x86_64 ? 27 : 34; }
  // x86-64 only: where the thread's own variables end.
  std::uint64_t fs_base() const noexcept { return values[21]; }
  std::uint64_t pc() const noexcept { return values[machine == Machine::x86_64 ? 16 : 32]; }
  std::uint64_t sp() const noexcept { return values[machine == Machine::x86_64 ? 19 : 31]; }
  std::uint64_t fp() const noexcept { return values[machine == Machine::x86_64 ? 4 : 29]; }
};

inline constexpr std::array<std::string_view, 27> kRegisterNamesX86{
    "r15",    "r14", "r13", "r12",     "rbp",     "rbx", "r11",      "r10", "r9",
    "r8",     "rax", "rcx", "rdx",     "rsi",     "rdi", "orig_rax", "rip", "cs",
    "eflags", "rsp", "ss",  "fs_base", "gs_base", "ds",  "es",       "fs",  "gs"};

inline constexpr std::array<std::string_view, 34> kRegisterNamesAarch64{
    "x0",  "x1",  "x2",  "x3",  "x4",  "x5",  "x6",  "x7",  "x8",  "x9",    "x10", "x11",
    "x12", "x13", "x14", "x15", "x16", "x17", "x18", "x19", "x20", "x21",   "x22", "x23",
    "x24", "x25", "x26", "x27", "x28", "x29", "x30", "sp",  "pc",  "pstate"};

inline std::span<const std::string_view> register_names(Machine machine) noexcept {
  if (machine == Machine::x86_64) return kRegisterNamesX86;
  return kRegisterNamesAarch64;
}

}  // namespace pm::elfcore
