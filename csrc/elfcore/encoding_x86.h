// Prefixes and opcode of an instruction: Intel SDM volume 2, chapter 2.
#pragma once

#include <cstdint>

#include "elfcore/instruction.h"
#include "elfcore/opcode_x86.h"

namespace pm::elfcore::x86 {

class Encoding {
 protected:
  explicit Encoding(Bytes code) : cursor_(code) {}

  // Reads up to the opcode; false if it is cut off, or of a kind that is not known here.
  bool read_opcode();

  Cursor cursor_;
  Opcode op_;
  bool has_66_ = false, has_67_ = false, has_lock_ = false, wide_ = false, broadcast_ = false;
  std::uint8_t repeat_ = 0, segment_ = 0, rex_ = 0;
  unsigned extend_index_ = 0, extend_base_ = 0;

 private:
  bool read_legacy(std::uint8_t byte);
  bool bad_before_vex() const;
  bool read_vex(bool is_short);
  bool read_evex();
};

}  // namespace pm::elfcore::x86
