#include "elfcore/signal_frame.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "elfcore/trap.h"

namespace pm::elfcore {
namespace {

// Layouts: arch/x86/include/asm/sigframe.h and uapi/asm/sigcontext.h (the trampoline finds the
// stack pointer at `uc`, the return address being popped); arch/arm64/kernel/signal.c and
// uapi/asm/sigcontext.h (the trampoline's stack pointer is at `info`). Offsets from there.
struct Layout {
  std::uint64_t info;   // siginfo_t
  std::uint64_t stack;  // uc_stack: ss_sp, ss_flags, ss_size
  std::uint64_t sp, pc;
  std::uint64_t size;  // bytes that are looked at
};
constexpr Layout kX86{304, 16, 160, 168, 432};
constexpr std::uint64_t kArmContext = 128 + 176;  // siginfo_t, ucontext_t up to uc_mcontext
constexpr Layout kArm{0, 128 + 16, kArmContext + 8 + 31 * 8, kArmContext + 8 + 32 * 8,
                      kArmContext + 8 + 34 * 8};
constexpr std::size_t kMaxFrame = 432 > kArmContext + 280 ? 432 : kArmContext + 280;

// r8-r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags as indexes into user_regs_struct.
constexpr std::array<std::size_t, 18> kOrderX86{9,  8, 7, 6,  3,  2,  1,  0,  14,
                                                13, 4, 5, 12, 10, 11, 19, 16, 18};
constexpr std::uint64_t kRegistersX86 = 40, kSegmentsX86 = 184, kTrapX86 = 192;
constexpr std::int32_t kSegvSignal = 11;
constexpr std::uint64_t kUserCode = 0x33;  // __USER_CS of a 64-bit process

// Between an interrupted frame and the frame of its handler: the red zone and the vector
// registers (11 KiB with AMX; 64 KiB and more with SVE).
constexpr std::uint64_t kReachX86 = 32 << 10, kReachArm = 96 << 10;
// Alternate stacks are small blocks of the heap, of data or mappings of their own.
constexpr std::uint64_t kMaxSearch = 64 << 20;

const Layout& layout(Machine machine) { return machine == Machine::x86_64 ? kX86 : kArm; }

// Without SA_SIGINFO the kernel leaves the siginfo of the frame as it was: any old bytes.
bool is_plausible(const SignalInfo& info) {
  constexpr std::int32_t kKernel = 0x80, kMostCodes = 15, kLeastCode = -60;
  constexpr std::int32_t kMostPids = 1 << 22;  // PID_MAX_LIMIT, include/linux/threads.h
  const std::int32_t code = info.code.value_or(0), sender = info.sender_pid.value_or(0);
  return info.number >= 1 && info.number <= 64 && sender >= 0 && sender <= kMostPids &&
         ((code >= kLeastCode && code <= kMostCodes) || code == kKernel);
}

bool is_fault(const SignalInfo& info) { return info.code.value_or(0) > 0; }

// struct esr_context, one of the records behind the registers of an aarch64 frame.
std::uint64_t syndrome(const Memory& memory, std::uint64_t at) {
  constexpr std::uint32_t kMagic = 0x45535201, kMaxRecords = 16;
  std::uint64_t record = at + kArmContext + 288;
  for (std::uint32_t i = 0; i < kMaxRecords; ++i) {
    const auto magic = memory.get<std::uint32_t>(record);
    const auto size = memory.get<std::uint32_t>(record + 4);
    if (!magic || !size || *magic == 0 || *size < 16) break;
    if (*magic == kMagic) return memory.word(record + 8).value_or(0);
    record += *size;
  }
  return 0;
}

Trap trap_at(const Memory& memory, std::uint64_t at, Bytes frame) {
  Trap trap;
  if (memory.core().machine() == Machine::x86_64) {
    trap.error = load<std::uint64_t>(frame, kTrapX86).value_or(0);
    trap.vector = load<std::uint64_t>(frame, kTrapX86 + 8).value_or(0);
    trap.address = load<std::uint64_t>(frame, kTrapX86 + 24).value_or(0);
  } else {
    trap.error = syndrome(memory, at);
    trap.address = load<std::uint64_t>(frame, kArmContext).value_or(0);
  }
  return trap;
}

// What the kernel wrote as siginfo, or what the trap says; the two must not contradict.
std::optional<SignalInfo> signal_at(const Memory& memory, const Registers& registers,
                                    const Trap& trap, Bytes info,
                                    std::optional<std::int32_t> number) {
  const auto written = parse_signal_info(info);
  const bool fits = written && is_plausible(*written) && (!number || written->number == *number);
  const auto derived = signal_of_trap(memory, registers, trap, fits ? written->number : number);
  if (!fits) return derived;
  if (!is_fault(*written)) return written;
  const bool same = derived && derived->address.value_or(0) == written->address.value_or(0);
  if (written->number == kSegvSignal && registers.machine == Machine::x86_64 && !same) {
    return derived;
  }
  return written;
}

std::optional<CaughtSignal> frame_at(const Memory& memory, std::uint64_t at,
                                     std::optional<std::int32_t> number) {
  const Machine machine = memory.core().machine();
  const Layout& rows = layout(machine);
  std::array<std::uint8_t, kMaxFrame> buffer{};
  if (at > UINT64_MAX - rows.size || !memory.read(at, {buffer.data(), rows.size})) {
    return std::nullopt;
  }
  const Bytes bytes{buffer.data(), rows.size};
  CaughtSignal caught;
  caught.registers.machine = machine;
  auto& values = caught.registers.values;
  if (machine == Machine::x86_64) {
    for (std::size_t i = 0; i < kOrderX86.size(); ++i) {
      values[kOrderX86[i]] = load<std::uint64_t>(bytes, kRegistersX86 + 8 * i).value_or(0);
    }
    if (load<std::uint16_t>(bytes, kSegmentsX86).value_or(0) != kUserCode) return std::nullopt;
  } else {
    for (std::size_t i = 0; i < 34; ++i) {
      values[i] = load<std::uint64_t>(bytes, kArmContext + 8 + 8 * i).value_or(0);
    }
  }
  const auto info = signal_at(memory, caught.registers, trap_at(memory, at, bytes),
                              clip(bytes, rows.info, 128), number);
  if (!info) return std::nullopt;
  caught.info = *info;
  return caught;
}

bool same_registers(const Registers& a, const Registers& b) {
  if (a.machine != Machine::x86_64) {
    return std::equal(a.values.begin(), a.values.begin() + 33, b.values.begin());
  }
  return std::all_of(kOrderX86.begin(), kOrderX86.end() - 1,
                     [&](std::size_t i) { return a.values[i] == b.values[i]; });
}

// The frame whose saved stack pointer and pc are the two words at the start of `found`.
std::optional<CaughtSignal> matching(const Memory& memory, std::uint64_t found,
                                     const ThreadState& thread) {
  const Layout& rows = layout(memory.core().machine());
  if (found < rows.sp) return std::nullopt;
  auto caught = frame_at(memory, found - rows.sp, memory.core().signal()->number);
  if (!caught || !same_registers(caught->registers, thread.registers)) {
    return std::nullopt;
  }
  caught->in_handler = false;
  return caught;
}

std::optional<CaughtSignal> search(const Memory& memory, std::uint64_t from, std::uint64_t to,
                                   const ThreadState& thread) {
  std::array<std::uint8_t, 16> pattern{};
  const std::array<std::uint64_t, 2> words{thread.registers.sp(), thread.registers.pc()};
  std::memcpy(pattern.data(), words.data(), pattern.size());
  for (std::uint64_t at = from; at < to;) {
    const Bytes bytes = clip(memory.core().dumped_at(at), 0, to - at);
    if (bytes.size() < pattern.size()) return std::nullopt;
    const void* const hit = memmem(bytes.data(), bytes.size(), pattern.data(), pattern.size());
    if (!hit) return std::nullopt;
    at += static_cast<std::uint64_t>(static_cast<const std::uint8_t*>(hit) - bytes.data());
    if (at % 8 == 0) {
      if (auto caught = matching(memory, at, thread)) return caught;
    }
    ++at;
  }
  return std::nullopt;
}

// Whether the thread stands in the system call that sends a signal: raise() and abort() end there,
// and then no handler has returned. The number of the call is kept in orig_rax; on aarch64 in x8,
// which means something only behind `svc #0`.
bool is_sending(const Memory& memory, const ThreadState& thread) {
  constexpr std::size_t kOrigRax = 15, kX8 = 8;
  constexpr std::uint32_t kSvc = 0xd4000001;
  // kill, rt_sigqueueinfo, tkill, tgkill, rt_tgsigqueueinfo, pidfd_send_signal.
  constexpr std::array<std::uint64_t, 6> kCallsX86{62, 129, 200, 234, 297, 424};
  constexpr std::array<std::uint64_t, 6> kCallsArm{129, 138, 130, 131, 240, 424};
  const bool x86 = thread.registers.machine == Machine::x86_64;
  const auto& calls = x86 ? kCallsX86 : kCallsArm;
  if (!x86 && memory.get<std::uint32_t>(thread.registers.pc() - 4) != kSvc) return false;
  const std::uint64_t number = thread.registers.values[x86 ? kOrigRax : kX8];
  return std::find(calls.begin(), calls.end(), number) != calls.end();
}

bool sent_by_itself(const Core& core) {
  const SignalInfo& info = *core.signal();
  if (!info.code || *info.code > 0) return false;
  const std::int32_t sender = info.sender_pid.value_or(-1);
  if (sender == 0) return true;  // another pid namespace: tgkill on oneself reads so
  return (core.process() && sender == core.process()->pid) || core.thread(sender) != nullptr;
}

}  // namespace

std::optional<CaughtSignal> read_signal_frame(const Memory& memory, std::uint64_t sp,
                                              std::uint64_t pc) {
  // On aarch64 a chain of frame pointers only gives a lower bound of the stack pointer.
  const std::uint64_t reach = memory.core().machine() == Machine::x86_64 ? 1 : 4096;
  for (std::uint64_t offset = 0; offset < reach && sp <= UINT64_MAX - reach; offset += 16) {
    auto caught = frame_at(memory, sp + offset, std::nullopt);
    if (caught && caught->registers.pc() == pc) return caught;
  }
  return std::nullopt;
}

std::optional<CaughtSignal> find_left_signal_frame(const Memory& memory) {
  const Core& core = memory.core();
  const ThreadState* const thread = core.crashed_thread();
  if (!thread || !core.signal() || !sent_by_itself(core) || is_sending(memory, *thread)) {
    return std::nullopt;
  }
  const std::uint64_t sp = thread->registers.sp();
  const std::uint64_t reach = core.machine() == Machine::x86_64 ? kReachX86 : kReachArm;
  const Segment* const stack = core.segment_at(sp);
  if (stack) {
    const std::uint64_t from = std::max(stack->start, sp > reach ? sp - reach : 0);
    if (auto caught = search(memory, (from + 7) & ~std::uint64_t{7}, sp, *thread)) return caught;
  }
  std::vector<const Segment*> segments;
  for (const Segment& segment : core.segments()) {
    if ((segment.flags & kWrite) && segment.present > 0) segments.push_back(&segment);
  }
  std::stable_sort(segments.begin(), segments.end(),
                   [](const Segment* a, const Segment* b) { return a->present < b->present; });
  std::uint64_t left = kMaxSearch;
  for (const Segment* const segment : segments) {
    const std::uint64_t size = std::min(segment->present, left);
    if (auto caught = search(memory, segment->start, segment->start + size, *thread)) return caught;
    left -= size;
    if (left == 0) break;
  }
  return std::nullopt;
}

std::optional<HandlerStack> read_handler_stack(const Memory& memory, std::uint64_t sp) {
  const std::uint64_t at = layout(memory.core().machine()).stack;
  const auto start = memory.word(sp + at), size = memory.word(sp + at + 16);
  if (!start || !size || sp < *start || sp - *start >= *size) return std::nullopt;
  return HandlerStack{*start, *size};
}

}  // namespace pm::elfcore
