#include "strace/extract.h"

#include <algorithm>

#include "strace/extractor.h"

namespace pm::strace {

bool Query::may_hold(const Event& event) const noexcept {
  if (!errors.empty() &&
      std::find(errors.begin(), errors.end(), event.result.error) == errors.end()) {
    return false;
  }
  if (!calls.empty()) {
    if (event.call != kUnknownCall) {
      if (!call_holds[event.call]) return false;
    } else {
      const std::string_view name = read_line(event.line, event.end).name;
      if (std::find(calls.begin(), calls.end(), name) == calls.end()) return false;
    }
  }
  if (pid >= 0 && event.has_pid && event.pid != pid) return false;
  return slower == 0 || event.nanoseconds >= slower || !event.timed;
}

void Wanted::prepare() {
  errors.clear();
  only_errors = true;
  durations = false;
  for (Query& query : queries) {
    errors.insert(errors.end(), query.errors.begin(), query.errors.end());
    only_errors &= !query.errors.empty();
    durations |= query.slower > 0;
    query.call_holds.assign(call_count(), false);
    for (std::uint16_t i = 0; i < call_count(); ++i) {
      for (const std::string& name : query.calls) {
        if (call_at(i).name == name) query.call_holds[i] = true;
      }
    }
  }
}

void BegunTable::reset() noexcept {
  std::fill(slots_.begin(), slots_.end(), Begun{});
  used_ = 0;
}

std::size_t BegunTable::place(std::uint32_t pid) const noexcept {
  std::size_t at = home(pid);
  while (slots_[at].used && slots_[at].pid != pid) at = (at + 1) & (slots_.size() - 1);
  return at;
}

Begun& BegunTable::find(std::uint32_t pid) {
  if (2 * used_ > slots_.size()) {
    std::vector<Begun> old(2 * slots_.size());
    old.swap(slots_);
    for (const Begun& slot : old) {
      if (slot.used) slots_[place(slot.pid)] = slot;
    }
  }
  Begun& slot = slots_[place(pid)];
  if (!slot.used) {
    ++used_;
    slot.used = true;
    slot.pid = pid;
  }
  return slot;
}

void Counts::add(const Counts& other) noexcept {
  lines += other.lines;
  calls += other.calls;
  signals += other.signals;
  exits += other.exits;
  remarks += other.remarks;
  output += other.output;
  unparsed += other.unparsed;
  pids |= other.pids;
  brackets |= other.brackets;
  times |= other.times;
  relative |= other.relative;
  epochs |= other.epochs;
  durations |= other.durations;
  detached |= other.detached;
  cut |= other.cut;
  annotations |= other.annotations;
  colors |= other.colors;
  traces |= other.traces;
  summary |= other.summary;
  halves |= other.halves;
}

void Extract::reset() {
  events.clear();
  side.clear();
  forks.clear();
  begun.reset();
  counts = {};
  tallies.clear();
  aborted = {};
  interrupted = 0;
  other_calls.clear();
  first_unparsed.clear();
  first_unparsed_number = 0;
}

void extract(const char* begin, const char* end, const Wanted& wanted, Extract& out) {
  out.reset();
  Extractor(wanted, out).run(begin, end);
}

}  // namespace pm::strace
