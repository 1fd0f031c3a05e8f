// What machine code around an address says: whether it can be a return address, and of which call.
#pragma once

#include <cstdint>
#include <optional>

#include "elfcore/modules.h"
#include "unwind/context.h"

namespace pm::unwind {

struct CallSite {
  // Where a direct call goes; nothing for calls through a register, memory or the PLT.
  std::optional<std::uint64_t> target;
  // Where a call of a PLT entry came out, once it was bound. That function may have jumped on.
  std::optional<std::uint64_t> bound;
};

class Code {
 public:
  explicit Code(const elfcore::Memory& memory) : memory_(memory) {}

  // Whether the process could execute there.
  bool executable(std::uint64_t address) const;
  // The call instruction that ends right before the address; nothing when there is none or the
  // text is not at hand.
  std::optional<CallSite> call_before(std::uint64_t address) const;
  // Whether the code at `pc` is the kernel's or libc's way out of a signal handler. Where the core
  // does not hold it, the kernel's frame tells, which begins at the stack pointer there.
  bool is_signal_return(std::uint64_t pc, std::uint64_t sp) const;
  bool is_signal_frame(std::uint64_t sp) const;
  // A code address without the pointer authentication bits that aarch64 signs it with.
  std::uint64_t stripped(std::uint64_t address) const;

 private:
  std::optional<CallSite> call_x86(std::uint64_t address) const;
  std::optional<CallSite> call_aarch64(std::uint64_t address) const;
  bool is_stub(std::uint64_t address) const;
  CallSite through_stub(std::uint64_t address) const;

  const elfcore::Memory& memory_;
};

}  // namespace pm::unwind
