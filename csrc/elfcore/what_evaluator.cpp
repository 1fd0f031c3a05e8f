// The instructions that compilers make of `return text_.c_str();` and its like, at all levels of
// optimisation, with and without a stack protector. Encoding: Intel SDM volume 2.
#include "elfcore/what_evaluator.h"

#include <array>
#include <cstddef>

#include "elfcore/opcode_x86.h"

namespace pm::elfcore {
namespace {

using namespace x86;

using Value = std::optional<std::uint64_t>;

constexpr unsigned kMaxSteps = 256;
constexpr std::size_t kStackWords = 128;
// No process has addresses there, so that nothing else can be taken for the stack.
constexpr std::uint64_t kStackTop = 0x7100000000000000;
constexpr std::uint64_t kStackBottom = kStackTop - 8 * kStackWords;
constexpr std::uint64_t kReturn = 0x7200000000000000;  // where the method itself returns to

class Follower {
 public:
  Follower(const Memory& memory, std::uint64_t method, std::uint64_t self)
      : memory_(memory), pc_(method) {
    registers_[kRdi] = self;
    registers_[kRsp] = kStackTop - 64;
    push(kReturn);
  }

  Value run() {
    for (unsigned i = 0; i < kMaxSteps; ++i) {
      if (pc_ == kReturn) return registers_[kRax];
      if (!step()) return std::nullopt;
    }
    return std::nullopt;
  }

 private:
  struct Operand {
    bool is_register = false;
    unsigned number = 0;
    Value address;
    bool is_guard = false;  // fs:0x28, the stack protector's
  };

  Value load(const Value& address) const {
    if (!address) return std::nullopt;
    if (*address >= kStackBottom && *address < kStackTop && *address % 8 == 0) {
      return stack_[(*address - kStackBottom) / 8];
    }
    return memory_.word(*address);
  }
  bool store(const Value& address, Value value) {
    if (!address || *address < kStackBottom || *address >= kStackTop || *address % 8 != 0) {
      return false;
    }
    stack_[(*address - kStackBottom) / 8] = value;
    return true;
  }
  bool push(Value value) {
    if (!registers_[kRsp]) return false;
    *registers_[kRsp] -= 8;
    return store(registers_[kRsp], value);
  }
  Value pop() {
    const Value value = load(registers_[kRsp]);
    if (registers_[kRsp]) *registers_[kRsp] += 8;
    return value;
  }

  bool go_to(const Value& target) {
    if (!target || *target == 0) return false;
    pc_ = *target;
    return true;
  }

  Operand read_modrm(Cursor& code, unsigned& reg, std::size_t immediate) {
    const std::uint8_t modrm = code.u8();
    const unsigned mod = modrm >> 6;
    reg = ((modrm >> 3) & 7U) | (rex_ & 4 ? 8 : 0);
    unsigned base = modrm & 7;
    Operand operand;
    if (mod == 3) {
      operand.is_register = true;
      operand.number = base | (rex_ & 1 ? 8 : 0);
      return operand;
    }
    Value address = 0;
    bool is_absolute = false;
    if (base == 4) {
      const std::uint8_t sib = code.u8();
      const unsigned index = ((sib >> 3) & 7U) | (rex_ & 2 ? 8 : 0);
      base = sib & 7;
      is_absolute = base == 5 && mod == 0;
      if (index != 4) {
        const Value& value = registers_[index];
        address = value ? Value(*value << (sib >> 6)) : std::nullopt;
      }
    }
    const bool is_relative = base == 5 && mod == 0 && !is_absolute;
    std::int64_t distance = 0;
    if (mod == 1) distance = static_cast<std::int8_t>(code.u8());
    if (mod == 2 || is_relative || is_absolute) distance = static_cast<std::int32_t>(code.u32());
    if (is_relative) {
      address = pc_ + code.offset() + immediate;
    } else if (!is_absolute) {
      const Value& value = registers_[base | (rex_ & 1 ? 8 : 0)];
      address = address && value ? Value(*address + *value) : std::nullopt;
    }
    if (address) *address += static_cast<std::uint64_t>(distance);
    operand.address = address;
    constexpr std::int64_t kGuard = 0x28;
    operand.is_guard = has_fs_ && is_absolute && distance == kGuard;
    if (has_fs_) operand.address = std::nullopt;
    return operand;
  }

  Value get(const Operand& operand) const {
    return operand.is_register ? registers_[operand.number] : load(operand.address);
  }
  bool set(const Operand& operand, Value value) {
    if (!operand.is_register) return store(operand.address, value);
    registers_[operand.number] = value;
    return true;
  }

  // add, and, sub, xor, cmp by their number in the encoding; `test` is `and` without a result.
  bool compute(unsigned operation, const Operand& target, Value other, bool with_guard) {
    constexpr unsigned kAdd = 0, kAnd = 4, kSub = 5, kXor = 6, kCmp = 7;
    const Value own = get(target);
    if (with_guard && (operation == kSub || operation == kXor || operation == kCmp)) {
      is_zero_ = true;  // the guard is whole: the function returned when it was called
      return operation == kCmp || set(target, 0);
    }
    Value result;
    if (own && other) {
      if (operation == kAdd) result = *own + *other;
      if (operation == kAnd) result = *own & *other;
      if (operation == kSub || operation == kCmp) result = *own - *other;
      if (operation == kXor) result = *own ^ *other;
    }
    is_zero_ = result ? std::optional(*result == 0) : std::nullopt;
    return operation == kCmp || set(target, result);
  }

  bool step() {
    const Bytes bytes = clip(memory_.at(pc_), 0, 15);
    Cursor code(bytes);
    rex_ = 0;
    has_fs_ = false;
    std::uint8_t op = code.u8();
    while (code.ok() && (op == 0x66 || op == 0xf2 || op == 0xf3 || op == 0x2e || op == 0x64)) {
      has_fs_ |= op == 0x64;
      op = code.u8();
    }
    if ((op & 0xf0) == 0x40) {
      rex_ = op;
      op = code.u8();
    }
    if (!code.ok()) return false;
    const bool followed = execute(op, code);
    return followed && code.ok();
  }

  // Each case leaves pc_ at the next instruction. 32-bit forms are followed where zero-extension
  // is all that differs.
  bool execute(std::uint8_t op, Cursor& code) {
    const bool wide = rex_ & 8;
    unsigned reg = 0;
    if (op >= 0x50 && op <= 0x57) {
      return push(registers_[(op & 7U) | (rex_ & 1 ? 8 : 0)]) && advance(code);
    }
    if (op >= 0x58 && op <= 0x5f) {
      registers_[(op & 7U) | (rex_ & 1 ? 8 : 0)] = pop();
      return advance(code);
    }
    if (op >= 0xb8 && op <= 0xbf && !wide) {
      registers_[(op & 7U) | (rex_ & 1 ? 8 : 0)] = code.u32();
      return advance(code);
    }
    switch (op) {
      case 0x90:
        return advance(code);
      case 0x89:
      case 0x8b: {
        const Operand operand = read_modrm(code, reg, 0);
        if (!wide) return false;
        if (op == 0x89) return set(operand, registers_[reg]) && advance(code);
        registers_[reg] = get(operand);
        return advance(code);
      }
      case 0x8d: {
        const Operand operand = read_modrm(code, reg, 0);
        if (operand.is_register || !wide) return false;
        registers_[reg] = operand.address;
        return advance(code);
      }
      case 0x01:
      case 0x29:
      case 0x31:
      case 0x39:
      case 0x85: {
        const Operand operand = read_modrm(code, reg, 0);
        const bool clears = op == 0x31 && operand.is_register && operand.number == reg;
        if (clears) registers_[reg] = 0;
        if (!wide && !clears) return false;
        const Value other = registers_[reg];
        if (op != 0x85) return compute(op >> 3, operand, other, false) && advance(code);
        const Value own = get(operand);
        is_zero_ = own && other ? std::optional((*own & *other) == 0) : std::nullopt;
        return advance(code);
      }
      case 0x03:
      case 0x2b:
      case 0x33:
      case 0x3b: {
        const Operand operand = read_modrm(code, reg, 0);
        const bool clears = op == 0x33 && operand.is_register && operand.number == reg;
        if (clears) registers_[reg] = 0;
        if (!wide && !clears) return false;
        Operand target;
        target.is_register = true;
        target.number = reg;
        return compute(op >> 3, target, get(operand), operand.is_guard) && advance(code);
      }
      case 0x81:
      case 0x83: {
        const Operand operand = read_modrm(code, reg, op == 0x83 ? 1 : 4);
        const std::int64_t value = op == 0x83 ? static_cast<std::int8_t>(code.u8())
                                              : static_cast<std::int32_t>(code.u32());
        const unsigned operation = reg & 7;
        if (!wide || (operation != 0 && operation < 4)) return false;
        return compute(operation, operand, static_cast<std::uint64_t>(value), false) &&
               advance(code);
      }
      case 0x74:
      case 0x75: {
        const auto distance = static_cast<std::int8_t>(code.u8());
        return branch(code, op == 0x74, distance);
      }
      case 0xe8: {
        const auto distance = static_cast<std::int32_t>(code.u32());
        const std::uint64_t next = pc_ + code.offset();
        return push(next) && go_to(next + static_cast<std::uint64_t>(std::int64_t{distance}));
      }
      case 0xe9:
      case 0xeb: {
        const std::int64_t distance = op == 0xeb ? static_cast<std::int8_t>(code.u8())
                                                 : static_cast<std::int32_t>(code.u32());
        return go_to(pc_ + code.offset() + static_cast<std::uint64_t>(distance));
      }
      case 0xff: {
        const Operand operand = read_modrm(code, reg, 0);
        const Value target = get(operand);
        if ((reg & 7) == 4) return go_to(target);
        return (reg & 7) == 2 && push(pc_ + code.offset()) && go_to(target);
      }
      case 0xc3:
        return go_to(pop());
      case 0xc9:
        registers_[kRsp] = registers_[kRbp];
        registers_[kRbp] = pop();
        return advance(code);
      case 0x0f:
        return execute_two_byte(code);
      default:
        return false;
    }
  }

  bool execute_two_byte(Cursor& code) {
    const std::uint8_t op = code.u8();
    unsigned reg = 0;
    if (op == 0x1e || op == 0x1f) {  // endbr64, nop
      read_modrm(code, reg, 0);
      return advance(code);
    }
    if (op != 0x84 && op != 0x85) return false;
    const auto distance = static_cast<std::int32_t>(code.u32());
    return branch(code, op == 0x84, distance);
  }

  bool branch(const Cursor& code, bool if_zero, std::int64_t distance) {
    if (!is_zero_) return false;
    pc_ += code.offset();
    if (*is_zero_ == if_zero) pc_ += static_cast<std::uint64_t>(distance);
    return true;
  }

  bool advance(const Cursor& code) {
    pc_ += code.offset();
    return true;
  }

  const Memory& memory_;
  std::uint64_t pc_;
  std::array<Value, 16> registers_{};
  std::array<Value, kStackWords> stack_{};
  std::optional<bool> is_zero_;
  std::uint8_t rex_ = 0;
  bool has_fs_ = false;
};

}  // namespace

std::optional<std::uint64_t> follow_method(const Memory& memory, std::uint64_t method,
                                           std::uint64_t self) {
  if (memory.core().machine() != Machine::x86_64) return std::nullopt;
  return Follower(memory, method, self).run();
}

}  // namespace pm::elfcore
