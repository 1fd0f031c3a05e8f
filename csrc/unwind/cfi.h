// Call frame programs: how to find the caller's registers from those of the callee.
//
// DWARF 5, section 6.4.2; "DWARF for the Arm 64-bit Architecture", section 4.4.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "unwind/context.h"
#include "unwind/frame_tables.h"

namespace pm::unwind {

struct Rule {
  enum class Kind : std::uint8_t {
    same,
    offset,            // saved at CFA + value
    value_offset,      // is CFA + value
    other_register,    // is in register `value`
    expression,        // saved where the expression says
    value_expression,  // is what the expression says
    undefined,         // cannot be known; of the return address: there is no caller
  };
  Kind kind = Kind::same;
  std::int64_t value = 0;
  Bytes expression{};
};

// The rules in force at one address.
struct Row {
  std::array<Rule, kColumns> rules{};
  std::uint64_t saved = 0;  // bit i: rule i says where to find the value, or computes it
  // CFA, the stack pointer before the call: register + offset, or an expression.
  std::uint64_t cfa_register = 0;
  std::int64_t cfa_offset = 0;
  Bytes cfa_expression{};
  bool cfa_is_known = false;
  std::size_t return_column = 0;
  bool signal_frame = false;
  std::uint64_t function_start = 0;  // link-time
  std::uint64_t function_end = 0;
};

// Nothing when the program is malformed, uses an unknown operation or exceeds the budget.
std::optional<Row> row_at(const Fde& fde, std::uint64_t address, Budget& budget);

}  // namespace pm::unwind
