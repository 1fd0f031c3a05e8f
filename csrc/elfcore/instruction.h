// The instruction that a thread stood at: which memory it touches, and what it needs of the CPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "elfcore/modules.h"

namespace pm::elfcore {

// What an instruction does with an operand.
inline constexpr std::string_view kReads = "read", kWrites = "write";

// A memory operand: "rax+rbx*8+0x10". Hints (prefetch, lea, nop) touch no memory and have none.
struct Operand {
  std::string text;
  std::optional<std::uint64_t> address;  // nothing where the registers do not give it
  std::string_view access;               // kReads, kWrites, or empty when not known
};

struct Decoded {
  std::vector<Operand> operands;  // explicit ones first; empty also when the decoder is not sure
  // "AVX-512", "AVX2", "SVE" …; "trap" for instructions that are there to stop the program; empty:
  // the base instruction set, or not known.
  // "privileged" for those that only the kernel may execute.
  std::string_view feature;
  // Where an indirect call, a jump or a return goes: the address, or the word in memory that has
  // it.
  std::optional<std::uint64_t> target, target_at;
  std::string_view transfer;    // "call", "jump" or "return"
  std::uint32_t alignment = 0;  // bytes that the operand's address must be a multiple of; 0: any
  std::uint32_t division = 0;   // bytes of the divisor of div and idiv; 0: no such instruction
  std::optional<std::uint64_t> divisor;  // where it is in a register
};

// Decodes one instruction as far as a diagnosis needs it; an unknown one decodes to nothing.
Decoded decode_instruction(Bytes code, std::uint64_t pc, const Registers& registers);
Decoded decode_x86(Bytes code, std::uint64_t pc, const Registers& registers);
Decoded decode_aarch64(Bytes code, std::uint64_t pc, const Registers& registers);

struct Instruction {
  std::uint64_t pc = 0;
  std::vector<std::uint8_t> code;  // up to 16 bytes; empty when they cannot be read
  std::optional<std::string> operand;
  std::optional<std::uint64_t> operand_address;
  std::string_view access;  // "read", "write", "execute", or empty
  std::string_view feature;
  std::optional<std::uint64_t> target;  // of an indirect call, a jump or a return
  std::string_view transfer;            // which of them
  std::uint32_t alignment = 0;
  std::optional<std::int64_t> divisor;  // of div or idiv, sign-extended from its size
};

// Of several operands (movs, push of memory, call through memory), the one that the fault address
// speaks for, else the first. `signal` is the one that came at this instruction, if one did.
Instruction read_instruction(const Memory& memory, const Registers& registers,
                             const std::optional<SignalInfo>& signal);

// "rax+0x10", "rsp-0x8": a displacement as disassemblers write it.
std::string with_displacement(std::string text, std::int64_t displacement);

}  // namespace pm::elfcore
