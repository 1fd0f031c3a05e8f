// The lines of which a log is full.
#include "strace/extractor.h"

#include <algorithm>

namespace pm::strace {

void Extractor::run(const char* begin, const char* end) {
  find_newlines(begin, end, out_.newlines);
  if (begin < end && end[-1] != '\n') {
    out_.newlines.push_back(static_cast<std::uint32_t>(end - begin));
    const std::string_view rest = view(begin, end);
    cut_ =
        !rest.ends_with(" +++") && !rest.ends_with(" ---");  // else only its newline is not there
  }
  begin_ = begin;
  const auto count = static_cast<std::uint32_t>(out_.newlines.size());
  out_.counts.lines = count;
  const char* line = begin;
  const std::uint32_t* const stops = out_.newlines.data();
  for (number_ = 0; number_ < count; ++number_) {
    const char* const stop = begin + stops[number_];
    if (stop == line || (stop == line + 1 && *line == '\r')) {
      ++out_.counts.remarks;
      line = stop + 1;
      continue;
    }
    if (!quick(line, stop)) slow_path(line, stop);
    line = stop + 1;
  }
  keep_open();
  out_.counts.unparsed = out_.counts.lines - std::min(out_.counts.lines, accounted());
  out_.counts.cut = cut_;
  note_times(begin);
}

// The lines of which a log is full: `pid [time] name(` and `pid [time] <... name resumed>`.
bool Extractor::quick(const char* line, const char* end) {
  if (end - line < 12 || end[-1] == '\r' || end[-1] == '?' ||
      (cut_ && number_ + 1 == out_.newlines.size())) {
    return false;
  }
  const char* const p = known_leader(line);
  if (!p || end - p < 4) return false;
  if (*p == '<') {
    if (!starts(p, end, "<... ")) return false;
    const char* const name = p + 5;
    unsigned length = find_in_16(name, ' ');
    if (length == 16) length = find_in_32(name, ' ');
    const char* const behind = name + length + 9;
    if (behind >= end || !starts(name + length, end, " resumed>") || *behind == '\x1b') {
      return false;
    }
    if (*behind == ' ' && starts(behind, end, " <unfinished ...>")) return false;
    resumed(line, end, form_.pid(line), name, length, behind);
    return true;
  }
  if (!is_lower(*p)) return false;
  unsigned length = find_in_16(p, '(');
  if (length == 16) length = find_in_32(p, '(');
  const char* const arguments = p + length + 1;
  if (length == 32 || arguments > end) return false;
  const auto [call, plain] = calls_.look_up(p, length);
  if (call == kUnknownCall) return false;
  if (errors_only_ && plain && worked(arguments, end)) {
    note_open(line, end);
    return true;
  }
  const std::uint32_t pid = form_.pid(line);
  if (end[-1] == '>' && end - arguments >= 14 && end[-2] == '.')
    return begun(line, end, pid, call, arguments);
  return complete(line, end, pid, call, arguments);
}

bool Extractor::begun(const char* line, const char* end, std::uint32_t pid, std::uint16_t call,
                      const char* arguments) {
  if (!ends(arguments, end, "<unfinished ...>")) return false;
  remember(line, end, arguments, pid, form_.has_pid());
  const Call& what = calls_.at(call);
  if (wanted_op(what.op) || wanted_.uses) {
    const char* stop = end - 16;
    if (stop > arguments && stop[-1] == ' ') --stop;
    if (errors_only_ && idle(what.op, arguments, stop)) {
      out_.begun.at(pid).idle = true;
      return true;
    }
    Event event = make(line, end, pid, call, Shape::entry, arguments, stop);
    const bool kept = emit_begun(event);
    // Its end changes nothing either, then.
    if (!kept && errors_only_ && by_arguments(what.op)) out_.begun.at(pid).idle = true;
  }
  return true;
}

bool Extractor::emit_begun(Event& event) {
  uses(event);
  const bool kept = wanted_op(event.op) && decode_args(event);
  if (kept) out_.events.push_back(event);
  return kept;
}

void Extractor::remember(const char* line, const char* end, const char* arguments,
                         std::uint32_t pid, bool has_pid) {
  ++out_.counts.calls;
  out_.counts.halves = true;
  out_.called(pid);
  out_.begun.at(pid) = {pid, number_, line, end, arguments, Half::here, true, has_pid};
  begun_pid_ = pid;
}

bool Extractor::complete(const char* line, const char* end, std::uint32_t pid, std::uint16_t call,
                         const char* arguments) {
  const Op op = calls_.at(call).op;
  Tail tail;
  if (errors_only_) {
    const Outcome outcome = outcome_of(arguments, end);
    if (outcome != Outcome::hit && !wanted_op(op)) {
      note_open(line, end);
      return true;
    }
    const bool is_fast =
        outcome == Outcome::other && fast_path(line, end, pid, call, op, arguments);
    if (is_fast || (outcome == Outcome::failed && only_by_success(op)) ||
        (outcome == Outcome::other && by_arguments(op) && read_tail(arguments, end, tail) &&
         !changes(line, end, pid, call, arguments))) {
      ++out_.counts.calls;
      open_ = nullptr;
      return true;
    }
  }
  if (counts_only_ && (op == Op::none || op == Op::read || op == Op::write) &&
      read_tail(arguments, end, tail) && plain(line, end, pid, call, arguments, tail)) {
    ++out_.counts.calls;
    open_ = nullptr;
    return true;
  }
  Event event = make(line, end, pid, call, Shape::call, arguments, end);
  event.result = read_result(arguments, end);
  if (!event.result.present) return false;
  ++out_.counts.calls;
  open_ = nullptr;
  finish(event);
  return true;
}

Extractor::Outcome Extractor::outcome_of(const char* begin, const char* end) const noexcept {
  const char* q = end;
  if (q[-1] == '>') {
    q -= 2;
    if (end - begin > 10 && end[-10] == '<' && end[-8] == '.') {  // <0.000007>, as nearly all are
      q = end - 10;
    } else {
      while (is_digit(*q) || *q == '.') --q;
      if (*q != '<') return Outcome::hit;
    }
    --q;
  }
  if (q[-1] != ')') return q[-1] == '>' ? Outcome::hit : Outcome::other;
  if (q[-2] == 'D') return Outcome::hit;
  q = last_bracket(begin, q);
  if (!q) return Outcome::hit;
  const char* word = q - 1;
  while (word > begin && word[-1] != ' ') --word;
  const std::string_view name = view(word, q - 1);
  if (name.size() < 2 || name[0] != 'E' || word[-1] != ' ') return Outcome::hit;
  for (const std::string& wanted : wanted_.errors) {
    if (name == wanted) return Outcome::hit;
  }
  return word - begin > 5 && std::memcmp(word - 5, "= -1 ", 5) == 0 ? Outcome::failed
                                                                    : Outcome::other;
}

const char* Extractor::last_bracket(const char* begin, const char* end) const noexcept {
  if (end - begin_ >= 64) {
    if (const std::uint64_t mask = mask_of_64(end - 64, '(')) {
      const char* const found = end - 1 - std::countl_zero(mask);
      return found > begin ? found : nullptr;
    }
  }
  const char* const limit = end - begin > 100 ? end - 100 : begin;
  const char* p = end;
  while (p > limit && *p != '(') --p;
  return p > limit ? p : nullptr;
}

bool Extractor::changes(const char* line, const char* end, std::uint32_t pid, std::uint16_t call,
                        const char* arguments) const {
  if (idle(calls_.at(call).op, arguments, end)) return false;
  Event event = make(line, end, pid, call, Shape::call, arguments, end);
  return decode_first_args(event);
}

void Extractor::resumed(const char* line, const char* end, std::uint32_t pid, const char* name,
                        unsigned length, const char* rest) {
  ++out_.counts.calls;
  const auto [call, plain_call] = calls_.look_up(name, length);
  Begun& slot = out_.begun.at(pid);
  if (errors_only_ && plain_call && worked(rest, end)) {
    slot.half = Half::none;
    return;
  }
  const Op op = call == kUnknownCall ? Op::none : calls_.at(call).op;
  Tail tail;
  if (counts_only_ && op == Op::none && call != kUnknownCall && slot.half == Half::here &&
      read_tail(rest, end, tail)) {
    if (!tail.timed) tail.nanoseconds = between(slot.line, slot.end, line, end);
    if (plain(line, end, pid, call, slot.arguments, tail, &slot)) {
      slot.half = Half::none;
      return;
    }
  }
  const bool idle = slot.idle && slot.half == Half::here && by_arguments(op);
  if ((wanted_op(op) && !idle) || !errors_only_ || may_be_hit(rest, end)) {
    Event event = make(line, end, pid, call, Shape::resumed, rest, end);
    take_half(event, slot);
    event.result = read_result(rest, end);
    finish(event);
    leave(slot, event.result, end);
    return;
  }
  leave(slot, {}, end);
}

// A call that had begun has ended, unless its task died in it (`= ?`), or is to make it again.
void Extractor::leave(Begun& slot, const Result& result, const char* end) {
  if (result.interrupted()) {
    slot.interrupted = true;
    ++out_.interrupted;
  } else if (end[-1] != '?') {
    slot.half = Half::none;
  }
}

// A call that has ended: counts it, and keeps it if anybody wants it.
void Extractor::finish(Event& event) {
  if (event.op == Op::aio_events)
    fail_within(event.result, view(event.arguments, event.arguments_end));
  const Result& result = event.result;
  out_.counts.annotations |= !result.annotation.empty();
  if (event.op == Op::fork && event.shape == Shape::resumed && result.value > 0) {
    out_.forks.emplace_back(event.pid, static_cast<std::uint32_t>(result.value));
  }
  if (wanted_.statistics || wanted_.durations) time(event);
  if (wanted_.statistics) count(event);
  event.hit = std::any_of(wanted_.queries.begin(), wanted_.queries.end(),
                          [&](const Query& query) { return query.may_hold(event); });
  if (result.within && !event.hit) event.hit = may_hold_within(wanted_.queries, event);
  uses(event);
  const bool kept = wanted_op(event.op) && decode_args(event);
  const bool asked =
      wanted_.statistics && (!result.error.empty() || event.slow || event.folder || !event.timed);
  if (!kept && !event.hit && !asked && !wanted_.every) return;
  out_.events.push_back(event);
  if (!kept && !result.failed()) out_.events.back().op = Op::none;  // nothing was read of it
}

void Extractor::describe(Event& event, const char* line, const char* end, std::uint32_t pid,
                         std::uint16_t call, Shape shape, const char* arguments,
                         const char* stop) const {
  event.line = line;
  event.end = end;
  event.arguments = arguments;
  event.arguments_end = stop;
  event.pid = pid;
  event.has_pid = form_.has_pid();
  event.bracketed = form_.bracketed();
  event.number = number_;
  event.call = call;
  event.op = call == kUnknownCall ? Op::none : calls_.at(call).op;
  event.shape = shape;
}

// Annotated descriptors of a call, for the check: the first of its arguments, and the returned
// one.
void Extractor::uses(const Event& event) {
  if (!wanted_.uses || event.call == kUnknownCall || event.shape == Shape::resumed) return;
  const Call& call = calls_.at(event.call);
  if (call.role != Role::fd && call.role != Role::at && call.role != Role::peer) return;
  if (event.op == Op::none && event.shape == Shape::open) return;
  const std::string_view all = view(event.arguments, event.arguments_end);
  const FdArgument fd = read_fd(argument_at(all, call.first));
  if (!fd.valid || fd.annotation.empty() || fd.number < 0) return;
  Event use = event;
  use.use = true;
  use.hit = false;
  use.op = Op::none;
  use.a = fd.number;
  use.text = fd.annotation;
  use.b = fd.deleted;
  out_.events.push_back(use);
}

}  // namespace pm::strace
