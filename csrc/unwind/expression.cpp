#include "unwind/expression.h"

#include <array>

namespace pm::unwind {
namespace {

// The longest expressions seen (PLT, signal trampolines) take about ten steps.
constexpr unsigned kMaxSteps = 1000;
constexpr std::size_t kMaxDepth = 64;

// Operations, DWARF 5 table 7.9, as far as they can stand in unwind tables.
enum Operation : std::uint8_t {
  kAddr = 0x03,
  kDeref = 0x06,
  kConst1u = 0x08,
  kConst1s = 0x09,
  kConst2u = 0x0a,
  kConst2s = 0x0b,
  kConst4u = 0x0c,
  kConst4s = 0x0d,
  kConst8u = 0x0e,
  kConst8s = 0x0f,
  kConstu = 0x10,
  kConsts = 0x11,
  kDup = 0x12,
  kDrop = 0x13,
  kOver = 0x14,
  kPick = 0x15,
  kSwap = 0x16,
  kRot = 0x17,
  kAbs = 0x19,
  kAnd = 0x1a,
  kDiv = 0x1b,
  kMinus = 0x1c,
  kMod = 0x1d,
  kMul = 0x1e,
  kNeg = 0x1f,
  kNot = 0x20,
  kOr = 0x21,
  kPlus = 0x22,
  kPlusUconst = 0x23,
  kShl = 0x24,
  kShr = 0x25,
  kShra = 0x26,
  kXor = 0x27,
  kBra = 0x28,
  kEq = 0x29,
  kGe = 0x2a,
  kGt = 0x2b,
  kLe = 0x2c,
  kLt = 0x2d,
  kNe = 0x2e,
  kSkip = 0x2f,
  kLit0 = 0x30,
  kReg0 = 0x50,
  kBreg0 = 0x70,
  kRegx = 0x90,
  kBregx = 0x92,
  kDerefSize = 0x94,
  kNop = 0x96,
};

std::uint64_t extend(std::int64_t value) { return static_cast<std::uint64_t>(value); }
std::int64_t as_signed(std::uint64_t value) { return static_cast<std::int64_t>(value); }

class Machinery {
 public:
  Machinery(Bytes code, const Context& context, const elfcore::Memory& memory)
      : code_(code), cursor_(code), context_(context), memory_(memory) {}

  std::optional<std::uint64_t> run(std::optional<std::uint64_t> initial) {
    if (initial) push(*initial);
    for (unsigned steps = 0; ok_ && !cursor_.at_end(); ++steps) {
      if (steps >= kMaxSteps) return std::nullopt;
      step(cursor_.u8());
      ok_ = ok_ && cursor_.ok();
    }
    if (!ok_ || !cursor_.ok() || depth_ == 0) return std::nullopt;
    return stack_[depth_ - 1];
  }

 private:
  void push(std::uint64_t value) {
    if (depth_ < kMaxDepth) {
      stack_[depth_++] = value;
    } else {
      ok_ = false;
    }
  }
  std::uint64_t pop() {
    if (depth_ > 0) return stack_[--depth_];
    ok_ = false;
    return 0;
  }
  void push_copy(std::size_t below_top) {
    if (below_top < depth_) {
      push(stack_[depth_ - 1 - below_top]);
    } else {
      ok_ = false;
    }
  }
  void push_register(std::uint64_t number, std::uint64_t offset) {
    if (number < kColumns) {
      push(context_.values[number] + offset);
    } else {
      ok_ = false;
    }
  }
  void push_memory(std::uint64_t address, std::size_t size) {
    std::array<std::uint8_t, 8> bytes{};
    if (size >= 1 && size <= 8 && memory_.read(address, {bytes.data(), size})) {
      push(*load<std::uint64_t>(bytes, 0));
    } else {
      ok_ = false;
    }
  }
  void jump(std::int16_t distance) {
    const std::uint64_t to = cursor_.offset() + extend(distance);
    if (to <= code_.size()) {
      cursor_ = Cursor(code_, to);
    } else {
      ok_ = false;
    }
  }

  void step(std::uint8_t operation) {
    if (operation >= kLit0 && operation < kReg0) return push(operation - std::uint64_t{kLit0});
    // A register "location" means its value here, as in libgcc's execute_stack_op.
    if (operation >= kReg0 && operation < kBreg0) return push_register(operation - kReg0, 0);
    if (operation >= kBreg0 && operation < kRegx) {
      return push_register(operation - kBreg0, extend(cursor_.sleb()));
    }
    if (operation >= kAnd && operation <= kNe && operation != kNeg && operation != kNot &&
        operation != kPlusUconst && operation != kBra) {
      const std::uint64_t right = pop(), left = pop();
      return push(combine(operation, left, right));
    }
    if (!constant(operation) && !shuffle(operation)) other(operation);
  }

  bool constant(std::uint8_t operation) {
    switch (operation) {
      case kAddr:
      case kConst8u:
      case kConst8s:
        push(cursor_.u64());
        return true;
      case kConst1u:
        push(cursor_.u8());
        return true;
      case kConst1s:
        push(extend(cursor_.get<std::int8_t>()));
        return true;
      case kConst2u:
        push(cursor_.u16());
        return true;
      case kConst2s:
        push(extend(cursor_.get<std::int16_t>()));
        return true;
      case kConst4u:
        push(cursor_.u32());
        return true;
      case kConst4s:
        push(extend(cursor_.get<std::int32_t>()));
        return true;
      case kConstu:
        push(cursor_.uleb());
        return true;
      case kConsts:
        push(extend(cursor_.sleb()));
        return true;
      default:
        return false;
    }
  }

  bool shuffle(std::uint8_t operation) {
    switch (operation) {
      case kDup:
        push_copy(0);
        return true;
      case kDrop:
        pop();
        return true;
      case kOver:
        push_copy(1);
        return true;
      case kPick:
        push_copy(cursor_.u8());
        return true;
      case kSwap: {
        const std::uint64_t a = pop(), b = pop();
        push(a);
        push(b);
        return true;
      }
      case kRot: {
        const std::uint64_t a = pop(), b = pop(), c = pop();
        push(a);
        push(c);
        push(b);
        return true;
      }
      default:
        return false;
    }
  }

  void other(std::uint8_t operation) {
    switch (operation) {
      case kDeref:
        return push_memory(pop(), 8);
      case kDerefSize: {
        const std::uint64_t address = pop();
        return push_memory(address, cursor_.u8());
      }
      case kAbs: {
        const std::uint64_t value = pop();
        return push(as_signed(value) < 0 ? 0 - value : value);
      }
      case kNeg:
        return push(0 - pop());
      case kNot:
        return push(~pop());
      case kPlusUconst: {
        const std::uint64_t value = pop();
        return push(value + cursor_.uleb());
      }
      case kBra: {
        const auto distance = cursor_.get<std::int16_t>();
        if (pop() != 0) jump(distance);
        return;
      }
      case kSkip:
        return jump(cursor_.get<std::int16_t>());
      case kRegx:
        return push_register(cursor_.uleb(), 0);
      case kBregx: {
        const std::uint64_t number = cursor_.uleb();
        return push_register(number, extend(cursor_.sleb()));
      }
      case kNop:
        return;
      default:
        ok_ = false;
    }
  }

  std::uint64_t combine(std::uint8_t operation, std::uint64_t left, std::uint64_t right) {
    switch (operation) {
      case kAnd:
        return left & right;
      case kDiv:
        if (right == 0) {
          ok_ = false;
          return 0;
        }
        // The one signed quotient that does not fit: -2^63 / -1.
        return right == ~std::uint64_t{0} ? 0 - left : extend(as_signed(left) / as_signed(right));
      case kMinus:
        return left - right;
      case kMod:
        if (right == 0) {
          ok_ = false;
          return 0;
        }
        return left % right;
      case kMul:
        return left * right;
      case kOr:
        return left | right;
      case kPlus:
        return left + right;
      case kShl:
        return right < 64 ? left << right : 0;
      case kShr:
        return right < 64 ? left >> right : 0;
      case kShra:
        return extend(as_signed(left) >> (right < 64 ? right : 63));
      case kXor:
        return left ^ right;
      case kEq:
        return left == right;
      case kGe:
        return as_signed(left) >= as_signed(right);
      case kGt:
        return as_signed(left) > as_signed(right);
      case kLe:
        return as_signed(left) <= as_signed(right);
      case kLt:
        return as_signed(left) < as_signed(right);
      default:  // kNe
        return left != right;
    }
  }

  Bytes code_;
  Cursor cursor_;
  const Context& context_;
  const elfcore::Memory& memory_;
  std::array<std::uint64_t, kMaxDepth> stack_{};
  std::size_t depth_ = 0;
  bool ok_ = true;
};

}  // namespace

std::optional<std::uint64_t> evaluate(Bytes expression, const Context& context,
                                      const elfcore::Memory& memory,
                                      std::optional<std::uint64_t> initial) {
  return Machinery(expression, context, memory).run(initial);
}

}  // namespace pm::unwind
