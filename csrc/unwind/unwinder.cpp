#include "unwind/unwinder.h"

#include <elf.h>

#include <algorithm>
#include <bit>
#include <deque>

#include "unwind/expression.h"

namespace pm::unwind {
namespace {

using elfcore::hex;
using elfcore::Module;
using elfcore::ModuleStatus;

constexpr std::size_t kMaxCachedRows = 16384;
// A handler on an alternate stack, in which another signal comes, and so on.
constexpr unsigned kMaxStackSwitches = 16;

}  // namespace

// Frames up to a limit: the first ones, and of the rest the last ones.
class Unwinder::Ends {
 public:
  explicit Ends(std::size_t limit)
      : tail_limit_(std::min<std::size_t>(limit / 4, 64)), head_limit_(limit - tail_limit_) {}

  void add(const Frame& frame) {
    if (head_.size() < head_limit_) {
      head_.push_back(frame);
      return;
    }
    tail_.push_back(frame);
    if (tail_.size() <= tail_limit_) return;
    tail_.pop_front();
    ++skipped_;
  }

  Frame& last() { return tail_.empty() ? head_.back() : tail_.back(); }

  Stack finish(std::string stopped) && {
    Stack stack;
    stack.frames = std::move(head_);
    stack.skipped = skipped_;
    stack.skipped_at = skipped_ > 0 ? stack.frames.size() : 0;
    stack.frames.insert(stack.frames.end(), tail_.begin(), tail_.end());
    stack.stopped = std::move(stopped);
    return stack;
  }

 private:
  std::size_t tail_limit_;
  std::size_t head_limit_;
  std::vector<Frame> head_;
  std::deque<Frame> tail_;
  std::uint64_t skipped_ = 0;
};

Unwinder::Unwinder(const elfcore::Memory& memory)
    : memory_(memory), code_(memory), vdso_(Vdso::find(memory.core())) {}

Stack Unwinder::unwind(const elfcore::ThreadState& thread, std::size_t max_frames) {
  Ends frames(std::max<std::size_t>(max_frames, 4));
  // Half of what is left, so that one endless stack leaves something to the other threads.
  const std::uint64_t allowance = budget_.frames / 2;
  std::uint64_t left = allowance;
  std::string stopped = walk(Context::of(thread.registers), frames, left);
  budget_.frames -= allowance - left;
  return std::move(frames).finish(std::move(stopped));
}

// Returns why it ended before the outermost frame.
std::string Unwinder::walk(Context context, Ends& frames, std::uint64_t& allowance) {
  bool exact = true;
  unsigned switches = 0;
  frames.add({context.pc, context.sp(), Trust::context, true, false});
  while (Budget::spend(allowance)) {
    Step found = step(context, exact);
    if (found.kind == Step::Kind::outermost) return {};
    if (found.kind == Step::Kind::failed) {
      return is_entry(exact ? context.pc : context.pc - 1) ? std::string() : std::move(found.why);
    }
    // A leaf function of aarch64 may keep nothing on the stack.
    const bool may_stay = exact && context.machine == Machine::aarch64;
    const bool grows =
        found.caller.sp() > context.sp() || (may_stay && found.caller.sp() == context.sp());
    if (!grows && (!found.left_signal || ++switches > kMaxStackSwitches)) {
      return "the caller's stack pointer " + hex(found.caller.sp()) +
             " does not lie above the callee's " + hex(context.sp()) +
             ": the stack is damaged or the unwind tables are wrong";
    }
    frames.last().signal_frame = found.left_signal;
    context = found.caller;
    exact = found.left_signal || was_interrupted(context.pc);
    frames.add({context.pc, context.sp(), found.trust, exact, false});
  }
  return "the stack goes on, with more frames than are walked";
}

// A return address stands behind a call. One at the first instruction of a function, without a call
// before it, was made up: Go's run-time lets a faulting instruction "call" runtime.sigpanic.
bool Unwinder::was_interrupted(std::uint64_t pc) {
  const Row* const rules = row(pc);
  if (!rules || rules->function_start + source_at(pc)->bias != pc) return false;
  return !rules->signal_frame && !code_.call_before(pc);
}

// The program's first function, and ld.so's: nothing called them. Not all C libraries say so in
// their unwind tables.
bool Unwinder::is_entry(std::uint64_t address) const {
  constexpr std::uint64_t kEntryCode = 64;
  const elfcore::Core& core = memory_.core();
  const std::uint64_t entry = core.auxv(AT_ENTRY).value_or(0);
  if (entry != 0 && address - entry < kEntryCode) return true;
  const std::uint64_t base = core.auxv(AT_BASE).value_or(0);
  const Module* const loader = base != 0 ? memory_.modules().at(base) : nullptr;
  return loader && loader->image && address - (loader->bias + loader->image->entry()) < kEntryCode;
}

Unwinder::Step Unwinder::Step::fail(std::string why, bool lost) {
  Step step;
  step.lost = lost;
  step.why = std::move(why);
  return step;
}

Unwinder::Step Unwinder::Step::end() {
  Step step;
  step.kind = Kind::outermost;
  return step;
}

Unwinder::Step Unwinder::Step::to(const Context& caller, Trust trust) {
  Step step;
  step.kind = Kind::found;
  step.caller = caller;
  step.trust = trust;
  return step;
}

Unwinder::Source* Unwinder::source_at(std::uint64_t address) {
  if (vdso_.contains(address)) {
    auto& slot = sources_[vdso_.start];
    if (!slot) slot = std::make_unique<Source>(Source{FrameTables(*vdso_.image), vdso_.bias});
    return slot.get();
  }
  const Module* const module = memory_.modules().at(address);
  if (!module) return nullptr;
  auto& slot = sources_[module->start];
  if (!slot) {
    slot = std::make_unique<Source>(Source{
        module->image ? FrameTables(*module->image) : FrameTables(memory_, *module), module->bias});
  }
  return slot.get();
}

const Row* Unwinder::row(std::uint64_t address) {
  const auto known = rows_.find(address);
  if (known != rows_.end()) return known->second.get();
  if (rows_.size() >= kMaxCachedRows) rows_.clear();
  std::unique_ptr<const Row> row;
  if (Source* const source = source_at(address)) {
    const std::uint64_t link_address = address - source->bias;
    if (const auto fde = source->tables.find(link_address, budget_)) {
      if (const auto rules = row_at(*fde, link_address, budget_)) {
        row = std::make_unique<const Row>(*rules);
      }
    }
  }
  return rows_.emplace(address, std::move(row)).first->second.get();
}

Unwinder::Step Unwinder::step(const Context& context, bool exact) {
  if (exact && !code_.executable(context.pc)) return step_from_bad_pc(context);
  const bool aarch64 = context.machine == Machine::aarch64;
  // The kernel's tables for the aarch64 trampoline lead past the interrupted function: its frame
  // record holds x30 of that function, not its pc (arch/arm64/kernel/signal.c, setup_sigframe).
  if (aarch64 && code_.is_signal_return(context.pc, context.sp()))
    return step_out_of_signal(context);
  const std::uint64_t lookup = exact ? context.pc : context.pc - 1;
  const Row* const rules = row(lookup);
  std::uint64_t from = context.sp();
  // Go's trampoline has unwind tables, but those of an ordinary function.
  const bool ordinary = rules && !rules->signal_frame;
  if (ordinary && code_.is_signal_return(context.pc, context.sp()))
    return step_out_of_signal(context);
  Step result;
  if (rules) {
    result = step_by_rules(*rules, context);
    if (result.kind != Step::Kind::failed) return result;
    if (const auto top = cfa(*rules, context); top && *top >= from) from = *top;
  } else {
    if (code_.is_signal_return(context.pc, context.sp())) return step_out_of_signal(context);
    result = Step::fail(explain_missing_tables(context.pc));
    if (exact) {
      if (auto caller = step_by_link_register(context)) {
        return Step::to(*caller, Trust::frame_pointer);
      }
    }
    std::optional<CallSite> call;
    if (auto caller = step_by_frame_pointer(context, call)) {
      // A function without a frame of its own leaves its caller's frame pointer in place; then the
      // chain skips that caller. Either the call there went to the function that runs, or a call
      // below the frame pointer may have been skipped.
      if (!calls_into(*call, lookup)) {
        if (auto nearer = skipped_caller(context, *call)) {
          return Step::to(*nearer, Trust::scan);
        }
      }
      return Step::to(*caller, Trust::frame_pointer);
    }
    if (auto caller = step_by_frame_records(context)) {
      return Step::to(*caller, Trust::frame_pointer);
    }
  }
  if (auto caller = step_by_scan(context, from)) return Step::to(*caller, Trust::scan);
  if (exact && !rules) {
    if (auto caller = step_to_terminate(context)) return Step::to(*caller, Trust::scan);
  }
  // "Mark the deepest frame by a frame pointer of zero" (System V ABI AMD64, section 3.4.1): the
  // thread start of musl, and of glibc before 2.26.
  if (!rules && !exact && context.fp() == 0) return Step::end();
  return result;
}

std::optional<std::uint64_t> Unwinder::cfa(const Row& row, const Context& context) const {
  if (!row.cfa_expression.empty()) {
    return evaluate(row.cfa_expression, context, memory_, std::nullopt);
  }
  return context.values[row.cfa_register] + static_cast<std::uint64_t>(row.cfa_offset);
}

Unwinder::Step Unwinder::step_by_rules(const Row& row, const Context& context) {
  const auto top = cfa(row, context);
  if (!top) return Step::fail("the unwind tables at " + hex(context.pc) + " cannot be followed");
  if (row.rules[row.return_column].kind == Rule::Kind::undefined) return Step::end();
  Step result;
  result.kind = Step::Kind::found;
  result.left_signal = row.signal_frame;
  Context& caller = result.caller;
  caller = context;
  caller.set_sp(*top);
  for (std::uint64_t left = row.saved; left != 0; left &= left - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(left));
    const Rule& rule = row.rules[i];
    std::optional<std::uint64_t> value;
    std::optional<std::uint64_t> saved_at;
    switch (rule.kind) {
      case Rule::Kind::same:
      case Rule::Kind::undefined:
        continue;
      case Rule::Kind::offset:
        saved_at = *top + static_cast<std::uint64_t>(rule.value);
        break;
      case Rule::Kind::value_offset:
        value = *top + static_cast<std::uint64_t>(rule.value);
        break;
      case Rule::Kind::other_register:
        if (static_cast<std::uint64_t>(rule.value) < kColumns) {
          value = context.values[static_cast<std::size_t>(rule.value)];
        }
        break;
      case Rule::Kind::expression:
        saved_at = evaluate(rule.expression, context, memory_, *top);
        break;
      case Rule::Kind::value_expression:
        value = evaluate(rule.expression, context, memory_, *top);
        break;
    }
    if (saved_at) value = memory_.word(*saved_at);
    if (value) {
      caller.values[i] = *value;
    } else if (i == row.return_column) {
      if (saved_at) return Step::fail(explain_missing_memory(*saved_at), true);
      return Step::fail("the unwind tables at " + hex(context.pc) + " cannot be followed");
    }
  }
  if (context.machine == Machine::x86_64 && row.rules[row.return_column].kind == Rule::Kind::same) {
    return Step::fail("the unwind tables at " + hex(context.pc) + " name no return address");
  }
  const std::uint64_t raw = caller.values[row.return_column];
  if (raw == 0 && !row.signal_frame) {
    return Step::fail("the return address is 0: the end of a stack without a mark, or overwritten");
  }
  caller.pc = code_.stripped(raw);
  // After a signal the pc may well be bad: that is why the signal came.
  if (!row.signal_frame && !code_.executable(caller.pc)) {
    return Step::fail("the return address " + hex(raw) +
                      " does not point to code: the stack is overwritten, or the library was "
                      "unloaded");
  }
  return result;
}

std::string Unwinder::explain_missing_tables(std::uint64_t pc) const {
  const Module* const module = memory_.modules().at(pc);
  if (!module) return "no unwind tables for the code at " + hex(pc) + ", which is in no file";
  const std::string name(module->name());
  if (module->status == ModuleStatus::missing) {
    return "no unwind tables for " + name + ": the file is not here";
  }
  if (module->status == ModuleStatus::mismatch) {
    return "no unwind tables for " + name + ": the file here is another build";
  }
  return "no unwind tables for the code at " + hex(pc) + " in " + name;
}

std::string Unwinder::explain_missing_memory(std::uint64_t address) const {
  const elfcore::Segment* const segment = memory_.core().segment_at(address);
  if (!segment) return "the stack leads to " + hex(address) + ", which is not mapped";
  const std::uint64_t distance = address - segment->start;
  if (memory_.core().slim() && distance < segment->present) {
    return "stack memory at " + hex(address) + " was left out of this slim core";
  }
  if (distance < segment->dumped) {
    return "stack memory at " + hex(address) + " is lost: the core is cut off before it";
  }
  return "stack memory at " + hex(address) + " was not dumped";
}

}  // namespace pm::unwind
