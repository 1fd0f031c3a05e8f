#include "strace/timeline.h"

#include <algorithm>

namespace pm::strace {
namespace {

// Field numbers of protos/perfetto/trace: trace_packet.proto, track_event/*.proto,
// interned_data.proto, clock_snapshot.proto.
namespace packet {
constexpr std::uint32_t kIn = 1;  // Trace.packet
constexpr std::uint32_t kClockSnapshot = 6, kTimestamp = 8, kSequence = 10, kTrackEvent = 11,
                        kInterned = 12, kSequenceFlags = 13, kTrackDescriptor = 60;
constexpr std::uint64_t kStateCleared = 1, kNeedsState = 2;
}  // namespace packet
namespace track_event {
constexpr std::uint32_t kCategory = 3, kAnnotation = 4, kType = 9, kName = 10, kTrack = 11;
}
namespace annotation {
constexpr std::uint32_t kName = 1, kInteger = 4, kString = 6, kInternedString = 17;
}
namespace interned_data {
constexpr std::uint32_t kCategories = 1, kEventNames = 2, kAnnotationNames = 3, kStrings = 29;
}
namespace descriptor {
constexpr std::uint32_t kUuid = 1, kProcess = 3, kThread = 4;
constexpr std::uint32_t kProcessPid = 1, kProcessCommand = 2, kProcessName = 6;
constexpr std::uint32_t kThreadPid = 1, kThreadTid = 2, kThreadName = 5;
}  // namespace descriptor
constexpr std::uint64_t kRealtime = 1, kBoottime = 6;  // BuiltinClock

constexpr std::int64_t kFirstEpoch = 300'000'000'000'000'000;  // of 1979: less is no date
constexpr std::size_t kMostStrings = 300'000;  // of one log; then they are written out
constexpr std::uint32_t kMostTexts = 50'000;   // calls that are written in full, of one log
constexpr std::size_t kLongestAnnotation = 400;
constexpr std::uint64_t kMostCommands = 5'000;  // processes with their whole command line
constexpr std::uint32_t kApart = 10'000'000;    // pids of several hosts; PID_MAX_LIMIT is 4,194,304

std::string printable(std::string_view text) {
  std::string out;
  append_printable(out, text);
  return out;
}

}  // namespace

Timeline::Timeline(int descriptor, Mask mask, Name name, Words words, TimelineOptions options)
    : out_(descriptor),
      masked_(mask),
      mask_(std::move(mask)),
      name_(std::move(name)),
      words_(std::move(words)),
      options_(std::move(options)) {}

void Timeline::begin(const LogLabel& label) {
  ++log_;
  label_ = label.name;
  files_ = label.files;
  clocks_.emplace_back("none");
  lanes_.clear();
  for (Texts* const texts : {&categories_, &names_, &keys_, &strings_}) texts->clear();
  interned_.clear();
  first_packet_ = true;
  shift_ = 0;
  log_last_ = kNoTime;
  texts_left_ = kMostTexts;
}

// A time of this log on the clock of the first one. A log of another kind of stamps is put so that
// both begin together.
std::int64_t Timeline::placed(std::int64_t time) {
  if (time == kNoTime) return kNoTime;
  if (clocks_.back() == "none") {
    const bool epoch = time >= kFirstEpoch;
    clocks_.back() = epoch ? "epoch" : "day";
    if (base_first_ == kNoTime) {
      base_first_ = time;
      base_epoch_ = epoch;
    } else if (epoch != base_epoch_) {
      shift_ = base_first_ - time;
    }
  }
  return std::max<std::int64_t>(0, time + shift_);
}

void Timeline::touch(Lane& lane, std::int64_t from, std::int64_t to) {
  if (from == kNoTime) return;
  if (lane.first == kNoTime || from < lane.first) lane.first = from;
  lane.last = std::max(lane.last, to);
  log_last_ = std::max(log_last_, to);
}

Timeline::Lane& Timeline::lane_of(std::uint32_t process, std::uint32_t pid,
                                  const Tracker& tracker) {
  Lane& lane = lanes_[process];
  const Process& known = tracker.processes().records()[process];
  if (lane.track == 0) {
    lane.track = next_track_++;
    if (known.thread_of == 0) lane.process = next_track_++;
  }
  lane.pid = pid;
  lane.parent = known.parent;
  lane.leader = known.thread_of ? known.thread_of : pid;
  return lane;
}

bool Timeline::wanted(const CallRecord& call) const {
  if (options_.all || call.unfinished || call.duration >= options_.shortest) return true;
  return call.failed() && !options_.quiet.contains(std::string(call.result.error));
}

void Timeline::call(const CallRecord& call, const Tracker& tracker) {
  ++counts_.calls;
  counts_.without_duration += call.duration == kNoTime && !call.unfinished;
  Lane& lane = lane_of(call.process, call.pid, tracker);
  std::int64_t start = placed(call.start);
  const std::int64_t end =
      start == kNoTime ? kNoTime : start + std::max<std::int64_t>(0, call.duration);
  touch(lane, start, end);
  if (start == kNoTime) {
    ++counts_.untimed;
    return;
  }
  if (!wanted(call)) return;
  ++counts_.written;
  lane.used = true;
  Slice slice = slice_of(call);
  // Of one task, one call is behind the other; stamps may say otherwise by some microseconds.
  start = std::max(start, lane.busy);
  if (call.unfinished) {
    lane.open = std::move(slice);
    lane.open_since = start;
    return;
  }
  if (call.duration == kNoTime) {
    event(start, Type::instant, lane.track, &slice);
    return;
  }
  lane.busy = std::max(start, end);
  event(start, Type::begin, lane.track, &slice);
  event(lane.busy, Type::end, lane.track, nullptr);
}

Timeline::Slice Timeline::slice_of(const CallRecord& call) {
  const bool failed = call.failed() && !options_.quiet.contains(std::string(call.result.error));
  std::string name(call.name);
  if (failed) name.append(" ").append(call.result.error);
  Slice slice = named(call.unfinished ? "unfinished" : failed ? "failed" : "call", name);
  std::string& to = slice.annotations;
  const Target& target = call.target();
  const std::string& words = target.path.empty() ? target.label : target.path;
  if (!words.empty()) annotate(to, "path", masked_(words));
  if (call.fd() >= 0) annotate(to, "fd", call.fd());
  if (target.deleted) annotate(to, "deleted", std::int64_t{1});
  if (target.opened && target.opened->place.line) {
    annotate(to, "opened at line", static_cast<std::int64_t>(target.opened->place.line));
  }
  if (call.result.known) annotate(to, "result", call.result.value);
  if (!call.result.error.empty()) annotate(to, "errno", call.result.error);
  if (call.result.injected) annotate(to, "injected", std::int64_t{1});
  annotate(to, "line", static_cast<std::int64_t>(call.place.line));
  if (call.place.file < files_.size()) annotate(to, "log", files_[call.place.file]);
  const bool long_one = call.unfinished || call.duration >= options_.shortest;
  // The words of an execve() are not learnt yet when it is written.
  const bool tells = call.call == kUnknownCall || call_at(call.call).op != Op::exec;
  if ((long_one || failed) && tells && texts_left_ > 0) {
    --texts_left_;
    std::string text = call.text();
    if (mask_) text = mask_(text);
    if (text.size() > kLongestAnnotation) text = text.substr(0, kLongestAnnotation) + " …";
    annotate(to, "call", text);
  }
  return slice;
}

void Timeline::signal(const SignalRecord& record, const Tracker& tracker) {
  const std::int64_t time = placed(record.time);
  if (time == kNoTime) return;
  Lane& lane = lane_of(record.process, record.pid, tracker);
  touch(lane, time, time);
  lane.used = true;
  std::string_view name = record.body.substr(std::min<std::size_t>(4, record.body.size()));
  name = name.substr(0, name.find(' '));
  Slice slice = named("signal", name);
  annotate(slice.annotations, "line", static_cast<std::int64_t>(record.place.line));
  annotate(slice.annotations, "signal",
           masked_(std::string(record.body.substr(0, kLongestAnnotation))));
  event(time, Type::instant, lane.track, &slice);
}

void Timeline::ended(const SignalRecord& record, const Tracker& tracker) {
  const std::int64_t time = placed(record.time);
  Lane& lane = lane_of(record.process, record.pid, tracker);
  learn(lane, tracker.processes().records()[record.process]);
  touch(lane, time, time);
  std::string_view how = record.body;  // +++ killed by SIGKILL (core dumped) +++
  if (how.starts_with("+++ ")) how.remove_prefix(4);
  if (how.ends_with(" +++")) how.remove_suffix(4);
  close_lane(lane, time == kNoTime ? lane.last : time, how);
  lanes_.erase(record.process);
}

void Timeline::finish(const Tracker& tracker) {
  std::vector<std::uint32_t> left;
  for (const auto& [process, lane] : lanes_) left.push_back(process);
  std::sort(left.begin(), left.end());
  for (const std::uint32_t process : left) {
    Lane& lane = lanes_[process];
    learn(lane, tracker.processes().records()[process]);
    close_lane(lane, log_last_, "the log ends");
  }
  lanes_.clear();
}

// What a process was called, and which rank it was: launchers tell it by its environment.
void Timeline::learn(Lane& lane, const Process& known) {
  lane.argv = known.argv;
  constexpr std::string_view kRanks[] = {
      "RANK=", "OMPI_COMM_WORLD_RANK=", "PMIX_RANK=", "PMI_RANK=", "SLURM_PROCID="};
  for (const std::string_view name : kRanks) {
    for (const std::string& word : known.environment.get()) {
      if (lane.rank.empty() && word.starts_with(name)) lane.rank = word.substr(name.size(), 10);
    }
  }
}

// Writes what is only known when a task is over: the call that it died in, and its life.
void Timeline::close_lane(Lane& lane, std::int64_t end, std::string_view how) {
  if (lane.open && lane.open_since != kNoTime) {
    event(lane.open_since, Type::begin, lane.track, &*lane.open);
    event(std::max(end, lane.open_since), Type::end, lane.track, nullptr);
  }
  if (lane.process && lane.first != kNoTime) {
    const std::string name = lane.argv.empty() ? "process" : name_(lane.argv);
    Slice life = named("process", name);
    annotate(life.annotations, "pid", lane.pid);
    if (lane.parent) annotate(life.annotations, "parent", lane.parent);
    if (!lane.rank.empty()) annotate(life.annotations, "rank", lane.rank);
    annotate(life.annotations, "end", how);
    event(lane.first, Type::begin, lane.process, &life);
    event(std::max(end, lane.first), Type::end, lane.process, nullptr);
    if (how != "exited with 0" && how != "the log ends") {
      Slice last = named("failed", how);
      event(std::max(end, lane.first), Type::instant, lane.process, &last);
    }
  }
  if (lane.process || lane.used) describe(lane);
}

// Another host may have the same pid: that of a later log is set apart, so that they stay two.
std::uint32_t Timeline::shown_pid(std::uint32_t pid) {
  if (pid == 0) pid = kApart - 1;  // a log without pids; 0 is the idle task
  const auto [owner, first] = owners_.emplace(pid, log_);
  if (first || owner->second == log_) return pid;
  return (log_ - 1) % 200 * kApart + pid;
}

void Timeline::describe(const Lane& lane) {
  const std::string name = lane.argv.empty() ? std::string() : name_(lane.argv);
  const std::uint32_t leader = shown_pid(lane.leader);
  const auto add = [&](std::uint64_t uuid, std::uint32_t field, const Proto& inner) {
    Proto track;
    track.number(descriptor::kUuid, uuid);
    track.message(field, inner);
    Proto one;
    one.number(packet::kSequence, 1);
    one.message(packet::kTrackDescriptor, track);
    Proto framed;
    framed.message(packet::kIn, one);
    head_ += framed.data();
  };
  if (lane.process) {
    Proto process;
    process.integer(descriptor::kProcessPid, leader);
    if (++described_ <= kMostCommands) {
      for (const std::string& word : words_(lane.argv)) {
        process.bytes(descriptor::kProcessCommand, printable(word.substr(0, kLongestAnnotation)));
      }
    }
    std::string shown = name.empty() ? "process" : name;
    if (!lane.rank.empty()) shown.insert(0, "rank " + lane.rank + ": ");
    if (!label_.empty()) shown.insert(0, label_ + ": ");
    process.bytes(descriptor::kProcessName, printable(shown));
    add(lane.process, descriptor::kProcess, process);
  }
  if (!lane.used) return;
  Proto thread;
  thread.integer(descriptor::kThreadPid, leader);
  thread.integer(descriptor::kThreadTid, shown_pid(lane.pid));
  thread.bytes(descriptor::kThreadName,
               lane.process ? printable(name.empty() ? "main" : name) : std::string("thread"));
  add(lane.track, descriptor::kThread, thread);
}

std::string Timeline::head() const {
  std::string out;
  if (base_first_ != kNoTime && base_epoch_) {
    // Events are on the default clock, BOOTTIME; this says what time of day that is.
    Proto snapshot;
    for (const std::uint64_t clock : {kBoottime, kRealtime}) {
      Proto reading;
      reading.number(1, clock);
      reading.integer(2, base_first_);
      snapshot.message(1, reading);
    }
    Proto one;
    one.number(packet::kSequence, 1);
    one.integer(packet::kTimestamp, base_first_);
    one.message(packet::kClockSnapshot, snapshot);
    Proto framed;
    framed.message(packet::kIn, one);
    out = framed.data();
  }
  return out + head_;
}

std::uint64_t Timeline::interned(Texts& texts, std::uint32_t field, std::string_view text) {
  std::string key(text);
  const auto found = texts.find(key);
  if (found != texts.end()) return found->second;
  const std::uint64_t id = texts.size() + 1;
  Proto entry;
  entry.number(1, id);
  entry.bytes(2, printable(text));
  interned_.message(field, entry);
  texts.emplace(std::move(key), id);
  return id;
}

Timeline::Slice Timeline::named(std::string_view category, std::string_view name) {
  Slice slice;
  slice.category = interned(categories_, interned_data::kCategories, category);
  slice.name = interned(names_, interned_data::kEventNames, name);
  return slice;
}

void Timeline::annotate(std::string& to, std::string_view key, std::string_view value) {
  Proto inner;
  inner.number(annotation::kName, interned(keys_, interned_data::kAnnotationNames, key));
  const bool once = key == "call" || key == "signal";
  if (once || (strings_.size() >= kMostStrings && !strings_.contains(std::string(value)))) {
    inner.bytes(annotation::kString, printable(value));
  } else {
    inner.number(annotation::kInternedString, interned(strings_, interned_data::kStrings, value));
  }
  Proto field;
  field.message(track_event::kAnnotation, inner);
  to += field.data();
}

void Timeline::annotate(std::string& to, std::string_view key, std::int64_t value) {
  Proto inner;
  inner.number(annotation::kName, interned(keys_, interned_data::kAnnotationNames, key));
  inner.integer(annotation::kInteger, value);
  Proto field;
  field.message(track_event::kAnnotation, inner);
  to += field.data();
}

void Timeline::event(std::int64_t time, Type type, std::uint64_t track, const Slice* slice) {
  Proto body;
  body.number(track_event::kType, static_cast<std::uint64_t>(type));
  body.number(track_event::kTrack, track);
  if (slice) {
    body.number(track_event::kCategory, slice->category);
    body.number(track_event::kName, slice->name);
  }
  std::string event = body.data();
  if (slice) event += slice->annotations;
  Proto one;
  one.integer(packet::kTimestamp, time);
  one.number(packet::kSequence, log_ + 1);
  one.bytes(packet::kTrackEvent, event);
  if (!interned_.empty()) {
    one.message(packet::kInterned, interned_);
    interned_.clear();
  }
  one.number(packet::kSequenceFlags,
             first_packet_ ? packet::kStateCleared | packet::kNeedsState : packet::kNeedsState);
  first_packet_ = false;
  Proto framed;
  framed.message(packet::kIn, one);
  counts_.bytes += framed.data().size();
  out_.add(framed.data());
}

}  // namespace pm::strace
