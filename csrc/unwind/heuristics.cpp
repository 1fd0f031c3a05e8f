// The ways to a caller where no unwind table says one, all checked against the code: see Trust.
#include <algorithm>
#include <array>

#include "elfcore/abort_message.h"
#include "elfcore/cpp_exception.h"
#include "unwind/symbol_tables.h"
#include "unwind/unwinder.h"

namespace pm::unwind {
namespace {

using elfcore::hex;

constexpr std::uint64_t kMaxFrame = 16 << 20;    // bytes between stack and frame pointer
constexpr std::uint64_t kScannedWords = 8192;    // 64 KiB: gemm kernels keep panels on the stack
constexpr std::uint64_t kMaxFunction = 1 << 16;  // bytes that a function without tables may have
constexpr unsigned kLeastChain = 2, kMaxChain = 256;
constexpr std::size_t kMaxLookups = 200;  // each reads a symbol table
constexpr std::uint64_t kNearWords = 512;
constexpr std::uint64_t kContext = 128 + 176 + 8;  // of x0 in the rt_sigframe of aarch64

bool by_trampoline(const Row* row) { return row && row->signal_frame; }

}  // namespace

// Where the rt_sigframe of an aarch64 trampoline begins: at its stack pointer, of which a chain of
// frame pointers only knows a lower bound. Behind the registers the kernel puts the vector ones
// first, with a mark; the signal's number stands there only for handlers with SA_SIGINFO
// (arch/arm64/kernel/signal.c, setup_sigframe and setup_rt_frame).
std::uint64_t Unwinder::signal_frame(std::uint64_t sp) const {
  constexpr std::uint64_t kMaxDistance = 4096;
  constexpr std::uint64_t kRecords = 280;  // from x0; struct sigcontext aligns them to 16 bytes
  constexpr std::uint32_t kVectorMagic = 0x46508001;  // FPSIMD_MAGIC
  std::uint64_t likely = sp;
  for (std::uint64_t at = sp; at - sp < kMaxDistance; at += 16) {
    const auto number = memory_.get<std::uint32_t>(at);
    const auto saved_sp = memory_.word(at + kContext + 31 * 8);
    const auto saved_pc = memory_.word(at + kContext + 32 * 8);
    if (!number || !saved_sp || !saved_pc) break;
    if (*saved_sp == 0 || *saved_sp % 16 != 0) continue;
    if (memory_.get<std::uint32_t>(at + kContext + kRecords) == kVectorMagic) return at;
    const bool fits = *number >= 1 && *number <= 64 && code_.executable(*saved_pc);
    if (fits && likely == sp) likely = at;
  }
  return likely;
}

// x86-64: struct rt_sigframe behind its return address begins with ucontext_t, whose registers
// are r8-r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip (sys/ucontext.h). aarch64: siginfo_t,
// then ucontext_t with struct sigcontext: fault address, x0-x30, sp, pc (asm/sigcontext.h).
Unwinder::Step Unwinder::step_out_of_signal(const Context& context) {
  Step result;
  result.left_signal = true;
  result.kind = Step::Kind::found;
  result.caller = context;
  const bool x86 = context.machine == Machine::x86_64;
  const std::uint64_t registers = x86 ? context.sp() + 40 : signal_frame(context.sp()) + kContext;
  constexpr std::array<std::size_t, 16> kOrderX86{8, 9, 10, 11, 12, 13, 14, 15,
                                                  5, 4, 6,  3,  1,  0,  2,  7};
  const std::size_t count = x86 ? kOrderX86.size() : 32;
  for (std::size_t i = 0; i <= count; ++i) {
    const auto value = memory_.word(registers + 8 * i);
    if (!value) return Step::fail(explain_missing_memory(registers + 8 * i));
    if (i == count) {
      result.caller.pc = *value;
    } else {
      result.caller.values[x86 ? kOrderX86[i] : i] = *value;
    }
  }
  return result;
}

// A call through a null or garbage pointer: the caller is where the call left its return address,
// and nothing else has changed since. Without that, the stack itself must tell.
Unwinder::Step Unwinder::step_from_bad_pc(const Context& context) {
  Step result;
  result.kind = Step::Kind::found;
  result.trust = Trust::frame_pointer;
  result.caller = context;
  const bool x86 = context.machine == Machine::x86_64;
  const auto address = x86 ? memory_.word(context.sp()) : context.values[kLinkColumn];
  if (!address) return Step::fail(explain_missing_memory(context.sp()));
  result.caller.pc = code_.stripped(*address);
  if (x86) result.caller.set_sp(context.sp() + 8);
  if (code_.executable(result.caller.pc) && code_.call_before(result.caller.pc)) return result;
  if (auto caller = step_by_scan(context, context.sp())) {
    return Step::to(*caller, Trust::scan);
  }
  return Step::fail("the program counter " + hex(context.pc) +
                    " does not point to code, and the stack holds no return address");
}

// Where the function that holds an address begins, by the symbols of its module.
std::optional<std::uint64_t> Unwinder::function_start(std::uint64_t address) {
  const auto known = starts_.find(address);
  if (known != starts_.end()) return known->second;
  std::optional<std::uint64_t> start;
  const elfcore::Module* const module = memory_.modules().at(address);
  if (module && module->image && starts_.size() < kMaxLookups) {
    const std::array<std::uint64_t, 1> addresses{address - module->bias};
    SymbolSearch search(addresses);
    search.read(*module->image);
    const Match& match = search.matches().front();
    if (match.rank != 0) start = match.start + module->bias;
  }
  starts_.emplace(address, start);
  return start;
}

// Without symbols, a function right above the call's target is as good as it gets.
bool Unwinder::calls_into(const CallSite& call, std::uint64_t address) {
  const auto target = call.target ? call.target : call.bound;
  if (!target || *target > address || address - *target >= kMaxFunction) return false;
  const auto start = function_start(address);
  return !start || *start == *target;
}

// aarch64: a leaf function that has saved nothing still has its return address in x30.
std::optional<Context> Unwinder::step_by_link_register(const Context& context) {
  if (context.machine != Machine::aarch64) return std::nullopt;
  const std::uint64_t link = code_.stripped(context.values[kLinkColumn]);
  // Saved in the frame record as well: the function has a frame, and x30 may be stale.
  const auto saved = memory_.word(context.fp() + 8);
  if (saved && code_.stripped(*saved) == link) return std::nullopt;
  if (!code_.executable(link)) return std::nullopt;
  // The kernel calls a signal handler without any call: x30 leads to its trampoline.
  if (!code_.is_signal_return(link, context.sp())) {
    const auto call = code_.call_before(link);
    if (!call || !calls_into(*call, context.pc)) return std::nullopt;
  }
  Context caller = context;
  caller.pc = link;
  return caller;
}

// Both machines keep {caller's frame pointer, return address} where the frame pointer points. On
// x86-64 that is the top of the frame; on aarch64 it may be anywhere in it, so that the caller's
// stack pointer is only known to lie above.
std::optional<Context> Unwinder::step_by_frame_pointer(const Context& context,
                                                       std::optional<CallSite>& call) const {
  const std::uint64_t fp = context.fp();
  if (fp % 8 != 0 || fp < context.sp() || fp - context.sp() > kMaxFrame) return std::nullopt;
  const elfcore::Segment* const stack = memory_.core().segment_at(context.sp());
  if (!stack || !stack->contains(fp)) return std::nullopt;
  const auto saved = memory_.word(fp);
  const auto address = memory_.word(fp + 8);
  if (!saved || !address) return std::nullopt;
  Context caller = context;
  caller.pc = code_.stripped(*address);
  call = return_address(caller.pc, fp + 16);
  if (!call) return std::nullopt;
  caller.set_fp(*saved);
  caller.set_sp(fp + 16);
  return caller;
}

// Code that is not at hand, as another machine's C library, cannot show a call before a return
// address. The chain of frame records, which aarch64's compilers keep in all but leaf functions, is
// believed where it leads upwards to a return address whose call can be read.
std::optional<Context> Unwinder::step_by_frame_records(const Context& context) const {
  constexpr unsigned kMostRecords = 32;
  const elfcore::Segment* const stack = memory_.core().segment_at(context.sp());
  if (context.machine != Machine::aarch64 || !stack) return std::nullopt;
  Context caller = context;
  std::uint64_t fp = context.fp(), low = context.sp();
  for (unsigned i = 0; i < kMostRecords; ++i) {
    if (fp % 8 != 0 || fp < low || fp - low > kMaxFrame || !stack->contains(fp)) break;
    const auto saved = memory_.word(fp), address = memory_.word(fp + 8);
    if (!saved || !address) break;
    const std::uint64_t pc = code_.stripped(*address);
    if (!code_.executable(pc)) break;
    if (i == 0) {
      caller.pc = pc;
      caller.set_fp(*saved);
      caller.set_sp(fp + 16);
    }
    if (return_address(pc, fp + 16)) return caller;
    if (memory_.get<std::uint32_t>(pc - 4)) break;  // code that is here, and no call
    low = fp + 16;
    fp = *saved;
  }
  return std::nullopt;
}

// Whether what the tables say from here on makes a living chain: every caller is preceded by a call
// to its callee, up to the outermost frame, or at least for a while up to where the tables or the
// memory end. Leftovers of earlier calls make chains too, but these break where living frames have
// overwritten them. (So do tail calls: then a frame is lost to the next candidate.)
bool Unwinder::goes_on(Context context) {
  for (unsigned i = 0; i < kMaxChain; ++i) {
    if (!Budget::spend(budget_.scanned_words)) return false;
    const Row* const rules = row(context.pc - 1);
    if (!rules) return i >= kLeastChain;
    const std::uint64_t start = rules->function_start + source_at(context.pc - 1)->bias;
    const Step next = step_by_rules(*rules, context);
    if (next.kind == Step::Kind::outermost) return true;
    if (next.kind == Step::Kind::failed) return next.lost && i >= kLeastChain;
    if (next.caller.sp() <= context.sp()) return false;
    if (next.left_signal) return code_.executable(next.caller.pc);
    const auto call = code_.call_before(next.caller.pc);
    if (!call && !by_trampoline(row(next.caller.pc - 1))) return false;
    if (call && call->target && *call->target != start) return false;
    context = next.caller;
  }
  return true;
}

// The same for a candidate without tables, whose call may have gone anywhere: soon after it comes a
// direct call to its function.
bool Unwinder::is_called(const Context& context) {
  if (row(context.pc - 1)) return false;
  for (std::uint64_t i = 0; i < kNearWords; ++i) {
    const auto word = memory_.word(context.sp() + 8 * i);
    if (!word || !Budget::spend(budget_.scanned_words)) return false;
    const auto call = return_address(*word, context.sp() + 8 * i + 8);
    if (call && calls_into(*call, context.pc - 1)) return true;
  }
  return false;
}

std::optional<CallSite> Unwinder::return_address(std::uint64_t word, std::uint64_t sp) const {
  if (word < 4096) return std::nullopt;
  const std::uint64_t address = code_.stripped(word);
  if (!code_.executable(address)) return std::nullopt;
  // A signal handler returns to a trampoline that nothing called.
  if (code_.is_signal_return(address, sp)) return CallSite{};
  return code_.call_before(address);
}

// A word that is a return address, and either of a direct call to the function that runs now, or
// one from which the stack leads on.
std::optional<Context> Unwinder::step_by_scan(const Context& context, std::uint64_t from) {
  return scan(context, from, UINT64_MAX, [&](const CallSite& call, const Context& caller) {
    return calls_into(call, context.pc - 1) || goes_on(caller) ||
           (!call.target && (is_called(caller) || code_.is_signal_frame(caller.sp())));
  });
}

// abort() in a C library that is not here: nothing leads over its frame. Who calls it most often is
// std::terminate().
std::optional<Context> Unwinder::step_to_terminate(const Context& context) const {
  const elfcore::ThreadState* const thread = memory_.core().crashed_thread();
  if (context.machine != Machine::x86_64 || !elfcore::may_have_aborted(memory_, thread)) {
    return std::nullopt;
  }
  const auto slot = elfcore::find_terminate(memory_, context.sp());
  if (!slot) return std::nullopt;
  Context caller = context;
  caller.pc = *memory_.word(*slot);
  caller.set_sp(*slot + 8);
  return caller;
}

// A caller that the frame pointer chain skips, because the function that runs has no frame of its
// own and left that caller's frame pointer in place: it lies below, and either calls the function
// that runs, or is what the next caller in the chain, `outer`, calls.
std::optional<Context> Unwinder::skipped_caller(const Context& context, const CallSite& outer) {
  return scan(context, context.sp(), context.fp(),
              [&](const CallSite& call, const Context& caller) {
                return calls_into(call, context.pc - 1) || calls_into(outer, caller.pc - 1);
              });
}

template <class Accept>
std::optional<Context> Unwinder::scan(const Context& context, std::uint64_t from, std::uint64_t to,
                                      Accept accept) {
  from = (from + 7) & ~std::uint64_t{7};
  for (std::uint64_t i = 0; i < kScannedWords; ++i) {
    const std::uint64_t slot = from + 8 * i;
    if (slot < from || slot >= to || !Budget::spend(budget_.scanned_words)) break;
    const auto word = memory_.word(slot);
    if (!word) break;
    const auto call = return_address(*word, slot + 8);
    if (!call) continue;
    Context caller = context;
    caller.pc = code_.stripped(*word);
    caller.set_sp(slot + 8);
    if (accept(*call, caller)) return caller;
  }
  return std::nullopt;
}

}  // namespace pm::unwind
