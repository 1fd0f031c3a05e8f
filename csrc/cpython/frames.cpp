#include "cpython/frames.h"

#include "cpython/values.h"
#include "elfcore/core.h"

namespace pm::cpython {
namespace {

// sys.setrecursionlimit() allows more, but not in 8 MiB of C stack before 3.11.
constexpr std::size_t kMaxFramesOfChain = 200'000;
constexpr std::size_t kMaxLocals = 64;

// Brent's search for a cycle in a chain of pointers.
class CycleWatch {
 public:
  bool seen(std::uint64_t value) noexcept {
    if (value == mark_) return true;
    if (++steps_ == power_) {
      mark_ = value;
      power_ *= 2;
      steps_ = 0;
    }
    return false;
  }

 private:
  std::uint64_t mark_ = 0, steps_ = 0, power_ = 1;
};

}  // namespace

Chain Frames::walk(std::uint64_t thread_state) const {
  const Layout& at = heap_.layout();
  if (heap_.features().frame_objects) {
    return walk_objects(heap_.pointer(thread_state, at.thread_frame));
  }
  if (at.thread_current_frame >= 0) {
    return walk_internal(heap_.pointer(thread_state, at.thread_current_frame));
  }
  const std::uint64_t cframe = heap_.pointer(thread_state, at.thread_cframe);
  if (cframe && !heap_.get<std::uint64_t>(cframe)) {
    // 3.11 and 3.12 keep the head of the chain on the C stack.
    Chain chain;
    chain.stopped = "the C stack at " + elfcore::hex(cframe) +
                    ", which leads to the Python frames, is not in the core";
    return chain;
  }
  return walk_internal(heap_.pointer(cframe, at.cframe_current_frame));
}

Chain Frames::walk_from(std::uint64_t frame_object) const {
  if (heap_.features().frame_objects) return walk_objects(frame_object);
  return walk_internal(heap_.pointer(frame_object, heap_.layout().frame_iframe));
}

// 3.8 to 3.10: one frame object and one evaluator call for each Python call.
Chain Frames::walk_objects(std::uint64_t frame) const {
  Chain chain;
  CycleWatch cycle;
  while (frame) {
    const auto place = place_of(frame);
    if (!place) {
      chain.stopped = "no frame can be read at " + elfcore::hex(frame);
    } else if (cycle.seen(frame)) {
      chain.stopped = "the chain of Python frames runs in a circle";
    } else if (chain.frames.size() >= kMaxFramesOfChain) {
      chain.stopped = "more than " + std::to_string(kMaxFramesOfChain) + " Python frames";
    }
    if (!chain.stopped.empty()) return chain;
    chain.frames.push_back(*place);
    chain.frames.back().evaluators = 1;
    frame = heap_.pointer(frame, heap_.layout().frame_back);
  }
  return chain;
}

// 3.12 and later put a frame of their own (FRAME_OWNED_BY_CSTACK; since 3.14 also _INTERPRETER)
// below the first frame of each evaluator call.
bool Frames::is_shim(std::uint8_t owner) const noexcept {
  return heap_.features().shim_frames && owner >= 3;
}

// Where the code that a frame runs begins. In a free-threaded 3.14 each thread has a copy of its
// own, whose number the frame knows (_PyCodeArray: size, entries; the first is in the code object).
std::uint64_t Frames::instructions_of(std::uint64_t frame, std::uint64_t code) const {
  const Layout& at = heap_.layout();
  const std::uint64_t own = code + static_cast<std::uint64_t>(at.code_instructions);
  const auto number = heap_.field<std::int32_t>(frame, at.iframe_tlbc).value_or(0);
  if (number <= 0) return own;
  const std::uint64_t copies = heap_.pointer(code, at.code_tlbc);
  const auto count = heap_.field<std::int64_t>(copies, 0).value_or(0);
  if (number >= count) return own;
  const std::uint64_t copy = heap_.pointer(copies + 8 * static_cast<std::uint64_t>(number), 8);
  return copy ? copy : own;
}

FramePlace Frames::internal_place(std::uint64_t frame) const {
  const Layout& at = heap_.layout();
  FramePlace place;
  place.code = heap_.pointer(frame, at.iframe_code);
  if (heap_.features().tagged_references) place.code &= ~std::uint64_t{7};
  const std::uint64_t instruction = heap_.pointer(frame, at.iframe_instr);
  place.offset = static_cast<std::int64_t>(instruction - instructions_of(frame, place.code));
  place.locals = frame + static_cast<std::uint64_t>(at.iframe_locals);
  return place;
}

// A frame that Python code has not begun to run in: made for a generator, or for the bookkeeping
// of a class's __init__ (3.12). Python leaves them out too (_PyFrame_IsIncomplete). The code of the
// latter is a constant of the interpreter, which a core without the library does not hold.
bool Frames::incomplete(const FramePlace& place, std::uint8_t owner) const {
  if (owner == 1) return false;  // FRAME_OWNED_BY_GENERATOR
  const auto first = heap_.field<std::int32_t>(place.code, heap_.layout().code_first_traceable);
  if (first) return place.offset < std::int64_t{*first} * 2;
  const auto* const segment = heap_.memory().core().segment_at(place.code);
  return segment && !(segment->flags & elfcore::kWrite);
}

Chain Frames::walk_internal(std::uint64_t frame) const {
  const Layout& at = heap_.layout();
  Chain chain;
  CycleWatch cycle;
  for (std::size_t steps = 0; frame; ++steps) {
    const auto owner = heap_.field<std::uint8_t>(frame, at.iframe_owner);
    if (!owner) {
      chain.stopped = "no frame can be read at " + elfcore::hex(frame);
    } else if (cycle.seen(frame)) {
      chain.stopped = "the chain of Python frames runs in a circle";
    } else if (steps >= kMaxFramesOfChain) {
      chain.stopped = "more than " + std::to_string(kMaxFramesOfChain) + " Python frames";
    }
    if (!chain.stopped.empty()) return chain;
    const std::uint64_t previous = heap_.pointer(frame, at.iframe_previous);
    bool entry = is_shim(*owner);
    // 3.15 puts a sentinel below the outermost frame, for profilers (PyThreadState.base_frame).
    if (entry && previous == 0 && heap_.features().base_frame) break;
    if (!entry) {
      const FramePlace place = internal_place(frame);
      if (!codes_.is_code(place.code) && !codes_.is_lost(place.code)) {
        chain.stopped = "the frame at " + elfcore::hex(frame) + " runs no code that can be read";
        return chain;
      }
      if (!incomplete(place, *owner)) chain.frames.push_back(place);
      entry = heap_.field<std::uint8_t>(frame, at.iframe_is_entry).value_or(0) != 0;
    }
    if (entry) {
      ++(chain.frames.empty() ? chain.idle_evaluators : chain.frames.back().evaluators);
    }
    frame = previous;
  }
  return chain;
}

std::optional<FramePlace> Frames::place_in(std::uint64_t frame) const {
  const FramePlace place = internal_place(frame);
  return codes_.is_code(place.code) ? std::optional(place) : std::nullopt;
}

std::optional<FramePlace> Frames::place_of(std::uint64_t frame_object) const {
  const Layout& at = heap_.layout();
  if (heap_.type_of(frame_object).name != "frame") return std::nullopt;
  if (!heap_.features().frame_objects) {
    return place_in(heap_.pointer(frame_object, at.frame_iframe));
  }
  FramePlace place;
  place.code = heap_.pointer(frame_object, at.frame_code);
  if (!codes_.is_code(place.code) && !codes_.is_lost(place.code)) return std::nullopt;
  const std::int64_t last = heap_.field<std::int32_t>(frame_object, at.frame_lasti).value_or(-1);
  place.offset = heap_.features().counts_code_units && last > 0 ? last * 2 : last;
  place.locals = frame_object + static_cast<std::uint64_t>(at.frame_locals);
  return place;
}

void Frames::add_locals(const FramePlace& place, Frame& frame) const {
  const auto names = codes_.local_names(place.code, kMaxLocals);
  const bool tagged = heap_.features().tagged_references;
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::uint64_t value = heap_.get<std::uint64_t>(place.locals + 8 * i).value_or(0);
    if (tagged) {
      if ((value & 3) == 3) {  // a small number without an object
        frame.locals.emplace_back(names[i], std::to_string(static_cast<std::int64_t>(value) >> 2));
        continue;
      }
      value &= ~std::uint64_t{3};
    }
    if (value == 0) continue;  // not assigned yet, or deleted
    if (heap_.type_of(value).name == "cell") {
      value = heap_.pointer(value, heap_.layout().cell_value);
      if (value == 0) continue;
    }
    // The iterable of a comprehension; no variable of the source.
    if (names[i].starts_with('.')) continue;
    frame.locals.emplace_back(names[i], render_value(heap_, value));
    heap_.charge(frame.locals.back().second.size());
  }
}

void Frames::describe(const Chain& chain, const Options& options, Thread& thread) const {
  const std::size_t count = chain.frames.size();
  const std::size_t limit = options.max_frames < 2 ? 2 : options.max_frames;
  std::size_t head = count, tail = count;
  if (count > limit) {
    head = limit / 2;
    tail = count - (limit - head);
    thread.skipped = tail - head;
    thread.skipped_at = head;
  }
  thread.idle_evaluators = chain.idle_evaluators;
  thread.stopped = chain.stopped;
  for (std::size_t i = 0; i < count; ++i) {
    if (i >= head && i < tail) continue;
    const FramePlace& place = chain.frames[i];
    Frame frame;
    frame.evaluators = place.evaluators;
    if (const Code* const code = codes_.find(place.code)) {
      frame.function = code->function;
      frame.file = code->file;
      frame.line = code->line(place.offset);
    } else {
      frame.function = "??";
    }
    heap_.charge(sizeof frame + frame.function.size() + frame.file.size());
    if (heap_.exhausted()) {
      // Frames further out would be taken for the callers of these.
      thread.stopped = "reading them takes more memory or steps than allowed";
      break;
    }
    if (options.locals) add_locals(place, frame);
    thread.frames.push_back(std::move(frame));
  }
}

}  // namespace pm::cpython
