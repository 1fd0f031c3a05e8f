#include "elfcore/instruction.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

namespace pm::elfcore {
namespace {

constexpr std::size_t kMaxCode = 16;
constexpr std::uint64_t kMaxAccess = 256;  // bytes from an operand's start; 64 for AVX-512
constexpr std::int32_t kTrapSignal = 5;

std::vector<std::uint8_t> code_at(const Memory& memory, std::uint64_t pc) {
  std::vector<std::uint8_t> code;
  while (code.size() < kMaxCode && pc <= UINT64_MAX - kMaxCode) {
    const Bytes part = clip(memory.at(pc + code.size()), 0, kMaxCode - code.size());
    if (part.empty()) break;
    code.insert(code.end(), part.begin(), part.end());
  }
  return code;
}

// An address that x86-64 cannot translate (5-level paging has room for 57 bits): the fault then
// has no address, and the operand is all there is.
bool is_impossible(std::uint64_t address) {
  const std::uint64_t top = address >> 56;
  return top != 0 && top != 0xff;
}

const Operand* choose(const std::vector<Operand>& operands, std::optional<std::uint64_t> fault) {
  if (operands.empty()) return nullptr;
  for (const Operand& operand : operands) {
    if (!operand.address) continue;
    if (!fault && is_impossible(*operand.address)) return &operand;
    if (!fault) continue;
    if (*fault >= *operand.address && *fault - *operand.address < kMaxAccess) return &operand;
  }
  return &operands.front();
}

}  // namespace

std::string with_displacement(std::string text, std::int64_t displacement) {
  if (displacement == 0 && !text.empty()) return text;
  if (text.empty()) return hex(static_cast<std::uint64_t>(displacement));
  const bool negative = displacement < 0;
  const std::uint64_t size = negative ? 0 - static_cast<std::uint64_t>(displacement)
                                      : static_cast<std::uint64_t>(displacement);
  return text + (negative ? "-" : "+") + hex(size);
}

Decoded decode_instruction(Bytes code, std::uint64_t pc, const Registers& registers) {
  return registers.machine == Machine::x86_64 ? decode_x86(code, pc, registers)
                                              : decode_aarch64(code, pc, registers);
}

namespace {

bool is_code(const Core& core, std::uint64_t address) {
  const Segment* const segment = core.segment_at(address);
  return segment && (segment->flags & kExecute);
}

// Whether a bad pc was taken from the stack. A return leaves the address right below the stack
// pointer; a call has just put one of code there. On aarch64 a call sets x30 to where it stands,
// and the program counter has no tag in its top byte.
bool came_by_return(const Memory& memory, const Registers& registers) {
  if (registers.machine != Machine::x86_64) {
    return ((registers.values[30] ^ registers.pc()) << 8) == 0;
  }
  const auto above = memory.word(registers.sp());
  return memory.word(registers.sp() - 8) == registers.pc() && above &&
         !is_code(memory.core(), *above);
}

// Where a return whose code is not in the core was to go: the processor refuses an address that
// cannot be before it goes there. The stack pointer is at text, and what else holds no address are
// registers that were taken from right below it.
std::optional<std::uint64_t> refused_return(const Memory& memory, const Registers& registers,
                                            const std::optional<SignalInfo>& signal) {
  constexpr std::int32_t kSegv = 11, kFromKernel = 0x80;
  if (!signal || signal->number != kSegv || signal->code != kFromKernel) return std::nullopt;
  if (registers.machine != Machine::x86_64) return std::nullopt;
  constexpr std::uint64_t kSaved = 6;  // rbx, rbp, r12 to r15
  for (const std::uint64_t value : std::span(registers.values).first(registers.count())) {
    bool is_taken = !is_impossible(value);
    for (std::uint64_t i = 1; i <= kSaved && !is_taken; ++i) {
      is_taken = memory.word(registers.sp() - 8 * i) == value;
    }
    if (!is_taken) return std::nullopt;
  }
  const auto word = memory.word(registers.sp());
  if (!word || !is_impossible(*word)) return std::nullopt;
  for (unsigned shift = 0; shift < 64; shift += 8) {
    const std::uint64_t letter = *word >> shift & 0xff;
    if (letter < ' ' || letter > '~') return std::nullopt;
  }
  return word;
}

std::optional<std::int64_t> divisor(const Memory& memory, const Decoded& decoded) {
  if (decoded.division == 0) return std::nullopt;
  std::uint64_t value = decoded.divisor.value_or(0);
  if (!decoded.divisor) {
    const auto address = decoded.operands.empty() ? std::nullopt : decoded.operands.front().address;
    std::array<std::uint8_t, 8> bytes{};
    if (!address || !memory.read(*address, std::span(bytes).first(decoded.division))) {
      return std::nullopt;
    }
    std::memcpy(&value, bytes.data(), bytes.size());
  }
  const unsigned unused = 64 - 8 * decoded.division;
  return static_cast<std::int64_t>(value << unused) >> unused;
}

}  // namespace

Instruction read_instruction(const Memory& memory, const Registers& registers,
                             const std::optional<SignalInfo>& signal) {
  Instruction result;
  const Core& core = memory.core();
  result.pc = registers.pc();
  result.code = code_at(memory, result.pc);
  const auto fault = signal ? signal->address : std::nullopt;
  // qemu writes no siginfo.
  const bool at_pc = fault ? *fault == result.pc : result.code.empty();
  if (at_pc && !(signal && signal->number == kTrapSignal)) {
    const Segment* const segment = core.segment_at(result.pc);
    if (!segment || !(segment->flags & kExecute)) {
      if (!signal || signal->number == 11) result.access = "execute";
      if (came_by_return(memory, registers)) {
        result.transfer = "return";
        result.target = result.pc;
      }
      return result;
    }
  }
  if (result.code.empty()) {
    result.target = refused_return(memory, registers, signal);
    if (result.target) {
      result.transfer = "return";
      return result;
    }
  }
  const Decoded decoded = decode_instruction(result.code, result.pc, registers);
  result.feature = decoded.feature;
  result.alignment = decoded.alignment;
  result.transfer = decoded.transfer;
  result.target = decoded.target_at ? memory.word(*decoded.target_at) : decoded.target;
  if (const Operand* const operand = choose(decoded.operands, fault)) {
    result.operand = operand->text;
    result.operand_address = operand->address;
    result.access = operand->access;
  }
  result.divisor = divisor(memory, decoded);
  // int3 reports the address behind itself.
  constexpr std::uint8_t kInt3 = 0xcc;
  if (signal && signal->number == kTrapSignal && result.feature.empty() &&
      core.machine() == Machine::x86_64 &&
      memory.get<std::uint8_t>(result.pc - 1).value_or(0) == kInt3) {
    result.feature = "trap";
  }
  return result;
}

}  // namespace pm::elfcore
