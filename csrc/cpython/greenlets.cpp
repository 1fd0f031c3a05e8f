#include "cpython/greenlets.h"

#include <array>
#include <string>
#include <string_view>

namespace pm::cpython {
namespace {

constexpr std::size_t kMaxGreenlets = 10'000;
constexpr std::size_t kMaxObjects = 1'000'000;  // of the garbage collector; two seconds of reads
constexpr std::size_t kMaxAncestors = 32;
constexpr std::size_t kMaxGreenletName = 200;
constexpr std::uint64_t kInterpreterWords = 4096;
constexpr std::uint64_t kGcHead = 16;  // PyGC_Head: next, previous, both with flags in low bits
constexpr std::uint64_t kFlags = 3;

}  // namespace

std::uint64_t Greenlets::greenlet_type(std::uint64_t interpreter) const {
  const std::uint64_t modules = heap_.pointer(interpreter, heap_.layout().interp_modules);
  // A module's dict is its first field (PyModuleObject.md_dict).
  const std::uint64_t names =
      heap_.pointer(heap_.lookup(modules, "greenlet._greenlet"), heap_.layout().object_head);
  return heap_.lookup(names, "greenlet");
}

bool Greenlets::is_greenlet(std::uint64_t type) {
  const auto [known, added] = derived_.emplace(type, false);
  if (!added) return known->second;
  std::uint64_t at = type;
  for (std::size_t i = 0; at && at != base_ && i < kMaxAncestors; ++i) {
    at = heap_.pointer(at, heap_.layout().type_base);
  }
  return known->second = at == base_;
}

// The generations of the collector are lists that lead in a circle through a head inside of
// PyInterpreterState, whose place differs with the version. Any such circle is walked: what is no
// object of a greenlet's type is left.
std::vector<std::uint64_t> Greenlets::find(std::uint64_t interpreter, Problems& problems) {
  std::vector<std::uint64_t> found;
  bool whole = true, any = false;
  for (std::uint64_t i = 0; i < kInterpreterWords; ++i) {
    const std::uint64_t head = interpreter + 8 * i;
    const std::uint64_t next = heap_.get<std::uint64_t>(head).value_or(0) & ~kFlags;
    const std::uint64_t last = heap_.get<std::uint64_t>(head + 8).value_or(0) & ~kFlags;
    if (next < 4096 || last < 4096 || (next | last) % 8 != 0) continue;
    if ((heap_.get<std::uint64_t>(last).value_or(0) & ~kFlags) != head) continue;
    if ((heap_.get<std::uint64_t>(next + 8).value_or(0) & ~kFlags) != head) continue;
    any = true;
    if (next != head) whole = walk(next, found) && whole;
    if (found.size() > kMaxGreenlets || steps_ > kMaxObjects) break;
  }
  if (!any || !whole) {
    problems.add("greenlets",
                 "the garbage collector's lists of objects cannot be followed to their end: some "
                 "greenlets may be missing");
  }
  return found;
}

// Of a list from its first object; false: it does not lead back.
bool Greenlets::walk(std::uint64_t first, std::vector<std::uint64_t>& found) {
  struct Object {
    std::uint64_t next, previous, references, type;
  };
  std::uint64_t at = first;
  do {
    const auto object = heap_.get<Object>(at);
    if (!object || ++steps_ > kMaxObjects || found.size() > kMaxGreenlets) return false;
    if (is_greenlet(object->type)) found.push_back(at + kGcHead);
    at = object->next & ~kFlags;
  } while (at != first);
  return true;
}

// PyGreenlet is weakreflist, dict and a pointer to greenlet::Greenlet, of which neighbours are
//   StackState: start, stop, copy on the heap, bytes of that, previous;
//   PythonState: context, top frame (a frame object while it is switched out, else null).
// What stands in front of these differs with the versions of both, so they are looked for, and
// taken only where all agrees.
std::optional<Greenlets::Suspended> Greenlets::suspended(std::uint64_t greenlet,
                                                         bool& known) const {
  constexpr std::size_t kWords = 32;
  const std::uint64_t state = heap_.pointer(greenlet, heap_.layout().object_head + 16);
  std::array<std::uint64_t, kWords> words{};
  bool doubtful = false;
  for (std::size_t i = 0; i < kWords; ++i) {
    words[i] = heap_.get<std::uint64_t>(state + 8 * i).value_or(0);
    if (i < 6 || heap_.type_of(words[i]).name != "frame") continue;
    const std::uint64_t start = words[i - 6], stop = words[i - 5], copy = words[i - 4],
                        saved = words[i - 3];
    const elfcore::Segment* const stack = heap_.memory().core().segment_at(start);
    const bool main = stop == UINT64_MAX;
    // Where a stack begins an object may seem to stand, too: that of a call's frame.
    known = stack && start != greenlet && start < stop && (main || stack->contains(stop)) &&
            saved <= stop - start && (copy != 0) == (saved != 0);
    if (known) return Suspended{words[i], start, main};
    doubtful = true;
  }
  known = state != 0 && !doubtful;
  return std::nullopt;
}

// The thread on whose stack it will go on.
std::int32_t Greenlets::thread_of(std::uint64_t stack,
                                  const std::vector<ThreadState>& threads) const {
  const elfcore::Core& core = heap_.memory().core();
  const elfcore::Segment* const segment = core.segment_at(stack);
  for (const ThreadState& one : threads) {
    const elfcore::ThreadState* const thread = core.thread(one.tid);
    if (segment && thread && segment->contains(thread->registers.sp())) return one.tid;
  }
  return 0;
}

std::vector<Greenlet> Greenlets::read(std::uint64_t interpreter,
                                      const std::vector<ThreadState>& threads, Problems& problems) {
  std::vector<Greenlet> result;
  base_ = greenlet_type(interpreter);
  if (!base_ || !options_.greenlets) return result;
  if (heap_.memory().core().slim() || head_growth(heap_.layout()) != 0) {
    problems.add("greenlets", heap_.memory().core().slim()
                                  ? "a slim core does not hold those that are switched out"
                                  : "in a free-threaded interpreter they cannot be found");
    return result;
  }
  derived_.clear();
  std::size_t doubtful = 0;
  std::string stopped;
  for (const std::uint64_t object : find(interpreter, problems)) {
    bool known = false;
    const auto state = suspended(object, known);
    doubtful += !known;
    if (!state) continue;
    Thread described;
    frames_.describe(frames_.walk_from(state->frame_object), options_, described);
    if (!described.stopped.empty()) stopped = described.stopped;
    if (described.frames.empty()) continue;
    Greenlet& greenlet = result.emplace_back();
    greenlet.object = object;
    const std::string& type = heap_.type_of(object).name;
    greenlet.type = type.substr(type.rfind('.') + 1);
    greenlet.name = heap_.text(heap_.attribute(object, "name"), kMaxGreenletName).value_or("");
    greenlet.main = state->main;
    greenlet.tid = thread_of(state->stack_start, threads);
    greenlet.frames = std::move(described.frames);
  }
  if (doubtful) {
    problems.add("greenlets",
                 std::to_string(doubtful) + " are laid out in a way that is not known: left out");
  }
  if (!stopped.empty()) problems.add("greenlets", "Python frames of one end early: " + stopped);
  return result;
}

}  // namespace pm::cpython
