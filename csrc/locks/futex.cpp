#include "locks/futex.h"

namespace pm::locks {
namespace {

// arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h.
constexpr std::uint64_t kFutexX86 = 202, kRestartX86 = 219;
constexpr std::uint64_t kFutexArm = 98, kRestartArm = 128;
constexpr std::uint64_t kFutexWaitv = 449;
constexpr std::uint32_t kPrivate = 0x80;   // FUTEX_PRIVATE_FLAG, FUTEX2_PRIVATE
constexpr std::uint32_t kCommands = 0x7f;  // FUTEX_CMD_MASK: without PRIVATE and CLOCK_REALTIME
constexpr std::uint32_t kWait = 0, kLockPi = 6, kWaitBitset = 9, kWaitRequeuePi = 11, kLockPi2 = 13;

bool waits(std::uint32_t operation) noexcept {
  return operation == kWait || operation == kLockPi || operation == kWaitBitset ||
         operation == kWaitRequeuePi || operation == kLockPi2;
}

struct Call {
  std::uint64_t number = 0;
  std::array<std::uint64_t, 4> arguments{};
};

// Where the kernel keeps the number and arguments of the call that a thread is in.
Call call_of(const elfcore::Registers& registers) noexcept {
  const auto& value = registers.values;
  if (registers.machine == elfcore::Machine::x86_64) {
    return {value[15],
            {value[14], value[13], value[12], value[7]}};  // orig_rax; rdi, rsi, rdx, r10
  }
  return {value[8], {value[0], value[1], value[2], value[3]}};
}

// aarch64 has no orig_rax: x8 may be left from an earlier call, so there has to be `svc #0`. It
// stands at the pc of a call that a signal interrupted: the kernel has already set that back, and
// x0, to start the call again (arch/arm64/kernel/signal.c, do_signal). Else it stands before the
// pc.
// Nothing where the code is not at hand (a library whose file is not here).
std::optional<bool> in_system_call(const elfcore::Memory& memory,
                                   const elfcore::Registers& registers) noexcept {
  if (registers.machine == elfcore::Machine::x86_64) return true;
  constexpr std::uint32_t kSvc = 0xd4000001;
  const auto at = memory.get<std::uint32_t>(registers.pc());
  const auto before = memory.get<std::uint32_t>(registers.pc() - 4);
  if (!at && !before) return std::nullopt;
  return at == kSvc || before == kSvc;
}

// struct wait_entry of Python/parking_lot.c: argument, address, semaphore, node of a ring. That the
// ring's neighbours lead back to it leaves no doubt; sem_t has 32 bytes in glibc and musl.
std::uint64_t parked_at(const elfcore::Memory& memory, const elfcore::ThreadState& thread,
                        std::uint64_t word) {
  constexpr std::uint64_t kSemaphore = 16, kNode = 48, kPrevious = 8;
  const elfcore::Segment* const stack = memory.core().segment_at(thread.registers.sp());
  if (!stack || !stack->contains(word) || word < kSemaphore) return 0;
  const std::uint64_t entry = word - kSemaphore, node = entry + kNode;
  const auto ring = memory.get<std::array<std::uint64_t, 2>>(node);
  if (!ring || memory.word((*ring)[0] + kPrevious) != node || memory.word((*ring)[1]) != node) {
    return 0;
  }
  return memory.word(entry + 8).value_or(0);
}

// Whether another process can have the word: what no file backs is this one's own (the kernel names
// shared anonymous memory /dev/zero), and so are the variables of a program or library. libstdc++
// waits for its barriers and semaphores without FUTEX_PRIVATE_FLAG.
bool may_be_shared(const elfcore::Memory& memory, std::uint64_t address) {
  return memory.core().file_at(address) && !memory.modules().at(address);
}

std::optional<FutexWait> read_wait(const elfcore::Memory& memory,
                                   const elfcore::ThreadState& thread) {
  const bool x86 = thread.registers.machine == elfcore::Machine::x86_64;
  const Call call = call_of(thread.registers);
  const auto in_call = in_system_call(memory, thread.registers);
  if (in_call == false) return std::nullopt;
  FutexWait wait;
  wait.tid = thread.tid;
  wait.timed = call.arguments[3] != 0;
  const bool restarted = call.number == (x86 ? kRestartX86 : kRestartArm);
  if (call.number == kFutexWaitv) {
    // struct futex_waitv { u64 val, uaddr; u32 flags, reserved }: the first of at most 128.
    const auto first = memory.get<std::array<std::uint64_t, 3>>(call.arguments[0]);
    if (!first) return std::nullopt;
    wait.shared = ((*first)[2] & kPrivate) == 0;
    wait.address = (*first)[1];
    wait.expected = static_cast<std::uint32_t>((*first)[0]);
  } else if (call.number == (x86 ? kFutexX86 : kFutexArm) || restarted) {
    wait.address = call.arguments[0];
    wait.operation = static_cast<std::uint32_t>(call.arguments[1]) & kCommands;
    wait.shared = (call.arguments[1] & kPrivate) == 0;
    if (!waits(wait.operation)) return std::nullopt;
    const bool pi = wait.operation == kLockPi || wait.operation == kLockPi2;
    wait.expected = pi ? 0 : static_cast<std::uint32_t>(call.arguments[2]);
  } else {
    return std::nullopt;
  }
  if (wait.address == 0 || wait.address % 4 != 0) return std::nullopt;
  wait.shared = wait.shared && may_be_shared(memory, wait.address);
  wait.words = memory.get<std::array<std::uint32_t, 5>>(wait.address);
  if (!wait.words) {
    // The end of a mapping: the word alone.
    if (const auto word = memory.get<std::uint32_t>(wait.address)) {
      wait.words.emplace()[0] = *word;
    }
  }
  wait.parked = parked_at(memory, thread, wait.address);
  // A restarted call may be poll() or nanosleep(), whose arguments only look alike.
  if ((restarted || !in_call) && (!wait.words || (*wait.words)[0] != wait.expected))
    return std::nullopt;
  return wait;
}

}  // namespace

std::vector<FutexWait> read_futex_waits(const elfcore::Memory& memory) {
  std::vector<FutexWait> rows;
  for (const elfcore::ThreadState& thread : memory.core().threads()) {
    if (const auto wait = read_wait(memory, thread)) rows.push_back(*wait);
  }
  return rows;
}

}  // namespace pm::locks
