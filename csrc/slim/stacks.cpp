#include "slim/stacks.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

namespace pm::slim {
namespace {

using elfcore::Core;
using elfcore::Memory;
using elfcore::Segment;
using elfcore::ThreadState;

// Of one stack: the part next to the stack pointer and the part at its far end, where it began. An
// unlimited stack that overflowed into a limit of memory has many GiB between them.
constexpr std::uint64_t kNear = std::uint64_t{24} << 20, kFar = std::uint64_t{8} << 20;
// Of all stacks; 251 threads that fill 8 MiB each would have 2 GiB.
constexpr std::uint64_t kAllStacks = std::uint64_t{512} << 20;
// Below the stack pointer: the red zone of the x86-64 ABI, and a page for a debugger's disassembly
// of the last push.
constexpr std::uint64_t kBelow = 256;
// Static thread-local storage lies below the thread pointer on x86-64, above it on aarch64;
// struct pthread and the restartable sequences area on the other side.
constexpr std::uint64_t kTls = 64 << 10, kPthread = 8 << 10;
constexpr std::uint64_t kDtvSlots = 4096;
// Words on a stack that are followed, and how much of what they point to is kept.
constexpr std::uint64_t kFollowed = 256 << 10, kTarget = 256;
// Different targets of one thread and of all; those that other threads have too cost nothing.
constexpr std::size_t kMaxTargets = 2048, kAllTargets = 16'384;

// A vector register's worth of hops is no pointer: it must lead into writable memory that no file
// backs, which is where arguments, strings and objects are.
bool is_target(const Core& core, std::uint64_t word) {
  const Segment* const segment = core.segment_at(word);
  return segment && (segment->flags & elfcore::kWrite) && word - segment->start < segment->present;
}

class StackKeeper {
 public:
  StackKeeper(const Memory& memory, PageSet& pages)
      : memory_(memory), core_(memory.core()), pages_(pages) {}

  void keep(const ThreadState& thread);

 private:
  std::uint64_t keep_stack(const ThreadState& thread, std::uint64_t sp, const Segment& segment);
  void keep_storage(const ThreadState& thread);
  void follow(const ThreadState& thread, Bytes stack);
  void follow(Bytes words, std::vector<std::uint64_t>& found);
  void keep_code(const ThreadState& thread);
  void add(std::uint64_t address, std::uint64_t size);

  const Memory& memory_;
  const Core& core_;
  PageSet& pages_;
  Range stack_;  // being followed: what points into it is kept anyway
  std::uint64_t left_ = kAllStacks;
  std::unordered_set<std::uint64_t> targets_;
  std::size_t targets_left_ = 0;  // of the thread
};

void StackKeeper::keep(const ThreadState& thread) {
  keep_storage(thread);
  keep_code(thread);
  const std::uint64_t sp = thread.registers.sp();
  const Segment* segment = core_.segment_at(sp);
  std::uint64_t start = sp;
  // In the guard page below an overflown stack, or in memory that is not mapped any more.
  if (!segment || segment->present == 0) {
    constexpr std::uint64_t kGuard = 1 << 20;
    segment = core_.segment_above(sp);
    if (!segment || segment->start - sp > kGuard) return;
    start = segment->start;
  }
  const std::uint64_t end = keep_stack(thread, start, *segment);
  stack_ = {start, end};
  follow(thread, clip(core_.dumped_at(start), 0, std::min(end - start, kFollowed)));
}

// Returns where the kept part next to the stack pointer ends.
std::uint64_t StackKeeper::keep_stack(const ThreadState& thread, std::uint64_t sp,
                                      const Segment& segment) {
  const std::uint64_t start = sp - segment.start > kBelow ? sp - kBelow : segment.start;
  std::uint64_t end = segment.end();
  // glibc and musl put the thread's own structure at the top of its stack; what lies above it may
  // be other memory that the kernel shows as one with it.
  if (thread.tls > sp && thread.tls < end) end = std::min(end, thread.tls + kPthread);
  const std::uint64_t near = std::min({end - start, kNear, left_});
  add(start, near);
  if (end - start > near) {
    const std::uint64_t far = std::min({end - start - near, kFar, left_});
    add(end - far, far);
  }
  return start + near;
}

void StackKeeper::keep_storage(const ThreadState& thread) {
  const Segment* const segment = core_.segment_at(thread.tls);
  if (!segment || thread.tls == 0) return;
  const bool x86 = core_.machine() == elfcore::Machine::x86_64;
  // On the thread's own stack: what lies below is kept with it.
  const bool on_stack =
      segment->contains(thread.registers.sp()) && thread.registers.sp() < thread.tls;
  const std::uint64_t below = std::min(thread.tls - segment->start, on_stack ? 0
                                                                    : x86    ? kTls
                                                                             : kPthread);
  const std::uint64_t above = std::min(segment->end() - thread.tls, x86 ? kPthread : kTls);
  add(thread.tls - below, below + above);
  // The dtv: pairs of a block and what to free, behind a counter.
  const auto vector = memory_.word(thread.tls + (x86 ? 8 : 0));
  if (!vector || *vector < 16) return;
  const std::uint64_t count = std::min(memory_.word(*vector - 16).value_or(0), kDtvSlots);
  add(*vector - 16, 32 + 16 * count);
  for (std::uint64_t i = 1; i <= count; ++i) {
    const auto block = memory_.word(*vector + 16 * i);
    if (block && is_target(core_, *block)) add(*block, kPage);
  }
}

// Code that no file has: a JIT's, or what a process wrote for itself.
void StackKeeper::keep_code(const ThreadState& thread) {
  const std::uint64_t pc = thread.registers.pc();
  add(pc > kPage ? pc - kPage : 0, 2 * kPage);
}

void StackKeeper::add(std::uint64_t address, std::uint64_t size) {
  size = std::min(size, left_);
  pages_.add(address, size);
  left_ -= size;
}

// A debugger shows the text that an argument points to, and the members of what a reference means.
// First all that the stack itself points to, then what stands there.
void StackKeeper::follow(const ThreadState& thread, Bytes stack) {
  targets_left_ = kMaxTargets;
  std::vector<std::uint64_t> found, further;
  const auto& values = thread.registers.values;
  follow({reinterpret_cast<const std::uint8_t*>(values.data()), thread.registers.count() * 8},
         found);
  follow(stack, found);
  for (const std::uint64_t target : found) {
    follow(clip(core_.dumped_at(target), 0, 64), further);
  }
}

void StackKeeper::follow(Bytes words, std::vector<std::uint64_t>& found) {
  for (std::uint64_t at = 0; at + 8 <= words.size() && targets_left_ > 0; at += 8) {
    const std::uint64_t word = load<std::uint64_t>(words, at).value_or(0);
    if (word < kPage || (word >= stack_.start && word < stack_.end)) continue;
    if (targets_.size() >= kAllTargets) return;
    if (!is_target(core_, word) || !targets_.insert(word).second) continue;
    --targets_left_;
    pages_.add(word, kTarget);
    found.push_back(word);
  }
}

}  // namespace

void keep_stacks(const Memory& memory, PageSet& pages) {
  StackKeeper keeper(memory, pages);
  for (const ThreadState& thread : memory.core().threads()) keeper.keep(thread);
}

}  // namespace pm::slim
