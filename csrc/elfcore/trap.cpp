#include "elfcore/trap.h"

#include <algorithm>

#include "elfcore/instruction.h"

namespace pm::elfcore {
namespace {

constexpr std::int32_t kIll = 4, kTrap = 5, kBus = 7, kFpe = 8, kSegv = 11;
constexpr std::int32_t kKernel = 0x80;  // SI_KERNEL

SignalInfo info_of(std::int32_t number, std::int32_t code,
                   std::optional<std::uint64_t> address = std::nullopt) {
  SignalInfo info;
  info.number = number;
  info.code = code;
  info.address = address;
  return info;
}

// Whether the instruction at the pc can have touched the address.
bool touches(const Memory& memory, const Registers& registers, std::uint64_t address) {
  if (address == registers.pc()) return true;
  const Decoded decoded = decode_instruction(memory.at(registers.pc()), registers.pc(), registers);
  constexpr std::uint64_t kMaxReach = 4096;  // string instructions, gathers
  return decoded.operands.empty() ||
         std::any_of(decoded.operands.begin(), decoded.operands.end(), [&](const Operand& operand) {
           return !operand.address ||
                  (address >= *operand.address && address - *operand.address < kMaxReach);
         });
}

// Whether execution stood behind a system call: then the signal came from outside.
bool after_system_call(const Memory& memory, std::uint64_t pc) {
  return memory.get<std::uint16_t>(pc - 2).value_or(0) == 0x050f;
}

bool is_division(Bytes code) {
  std::size_t i = 0;
  while (i < 4 && i < code.size() && (code[i] == 0x66 || (code[i] & 0xf0) == 0x40)) ++i;
  return i + 1 < code.size() && (code[i] == 0xf6 || code[i] == 0xf7) &&
         (code[i + 1] & 0x30) == 0x30;
}

// SIGBUS: the page was there for the taking, and could not be given.
bool is_permitted(const Core& core, std::uint64_t address, bool write) {
  const Segment* const segment = core.segment_at(address);
  return segment && (segment->flags & (write ? kWrite : kRead)) != 0;
}

SignalInfo page_fault(const Core& core, std::uint64_t address, bool write,
                      std::optional<std::int32_t> number) {
  constexpr std::int32_t kUnmapped = 1, kForbidden = 2, kNoPage = 2;
  const bool bus =
      number ? *number == kBus : core.file_at(address) && is_permitted(core, address, write);
  if (bus) return info_of(kBus, kNoPage, address);
  const bool mapped = core.segment_at(address) != nullptr;
  return info_of(kSegv, mapped ? kForbidden : kUnmapped, address);
}

// Vectors and error codes: Intel SDM 3A, chapter 6; what they become: arch/x86/kernel/traps.c.
std::optional<SignalInfo> of_x86(const Memory& memory, const Registers& registers, const Trap& trap,
                                 std::optional<std::int32_t> number) {
  constexpr std::uint64_t kWriteBit = 2;
  const std::uint64_t pc = registers.pc();
  switch (trap.vector) {
    case 0:
      if (!is_division(memory.at(pc))) return std::nullopt;
      return info_of(kFpe, 1, pc);
    case 3:
      return info_of(kTrap, kKernel);
    case 6:
      return info_of(kIll, 2, pc);
    case 12:
      return info_of(kBus, kKernel);
    case 13:
      return info_of(kSegv, kKernel);
    case 14:
      if (!touches(memory, registers, trap.address)) return std::nullopt;
      return page_fault(memory.core(), trap.address, (trap.error & kWriteBit) != 0, number);
    case 17:
      return info_of(kBus, 1);
    default:
      return std::nullopt;
  }
}

// ESR_EL1: Arm Architecture Reference Manual, D17.2.37; arch/arm64/mm/fault.c.
std::optional<SignalInfo> of_aarch64(const Memory& memory, const Registers& registers,
                                     const Trap& trap, std::optional<std::int32_t> number) {
  constexpr std::uint64_t kInstruction = 0x20, kPcAlignment = 0x22, kData = 0x24, kBreak = 0x3c;
  const std::uint64_t exception = (trap.error >> 26) & 0x3f;
  const std::uint64_t status = trap.error & 0x3f;
  if (exception == kBreak) return info_of(kTrap, 1, registers.pc());
  if (exception == kPcAlignment) return info_of(kBus, 1, registers.pc());
  if (exception == 0 && trap.error != 0) return info_of(kIll, 1, registers.pc());
  if (exception != kInstruction && exception != kData) return std::nullopt;
  if (status == 0x21) return info_of(kBus, 1, trap.address);
  if (exception == kData && !touches(memory, registers, trap.address)) return std::nullopt;
  return page_fault(memory.core(), trap.address, (trap.error & 0x40) != 0, number);
}

}  // namespace

std::optional<SignalInfo> signal_of_trap(const Memory& memory, const Registers& registers,
                                         const Trap& trap, std::optional<std::int32_t> number) {
  const bool x86 = registers.machine == Machine::x86_64;
  if (x86 && after_system_call(memory, registers.pc())) return std::nullopt;
  auto info =
      x86 ? of_x86(memory, registers, trap, number) : of_aarch64(memory, registers, trap, number);
  if (info && number && info->number != *number) return std::nullopt;
  return info;
}

}  // namespace pm::elfcore
