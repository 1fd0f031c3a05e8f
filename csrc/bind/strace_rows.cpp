// What the tracker knows as dicts and lists.
#include "bind/strace_rows.h"

#include <algorithm>

#include "bind/values.h"

namespace py = pybind11;

namespace pm::bind {

using namespace pm::strace;

namespace {

const char* kind_name(Kind kind) {
  switch (kind) {
    case Kind::file:
      return "file";
    case Kind::socket:
      return "socket";
    case Kind::pipe:
      return "pipe";
    case Kind::memfd:
      return "memfd";
    case Kind::device:
      return "device";
    case Kind::other:
      return "other";
    case Kind::unknown:
      break;
  }
  return "unknown";
}

const char* origin_name(Origin origin) {
  switch (origin) {
    case Origin::tracked:
      return "tracked";
    case Origin::annotated:
      return "annotated";
    case Origin::argument:
      return "argument";
    case Origin::unknown:
      break;
  }
  return "unknown";
}

py::object opened_row(const std::optional<Opened>& opened) {
  if (!opened || opened->place.line == 0) return py::none();
  RowDict row;
  row["file"] = opened->place.file;
  row["line"] = opened->place.line;
  row["pid"] = opened->pid;
  row["syscall"] = opened->call == kUnknownCall ? py::str("") : text(call_at(opened->call).name);
  return row;
}

py::dict target_row(const Target& target) {
  RowDict row;
  row["path"] = text_or_none(target.path);
  row["kind"] = kind_name(target.kind);
  row["deleted"] = target.deleted;
  row["nameless"] = target.nameless;
  row["source"] = origin_name(target.origin);
  row["guessed"] = target.guessed;
  row["opened"] = opened_row(target.opened);
  row["given"] = opened_row(target.given);
  row["flags"] = text(target.flags);
  row["label"] = text(target.label);
  row["written_bytes"] = target.written_bytes;
  row["read_bytes"] = target.read_bytes;
  return row;
}

py::object time_or_none(double time) {
  return time < 0 ? py::object(py::none()) : py::float_(time);
}

py::object futex_row(const std::optional<FutexUse>& use) {
  if (!use) return py::none();
  RowDict row;
  row["woken_by"] = use->woken_by;
  row["woken_line"] = use->woken.line;
  row["passed_by"] = use->passed_by;
  row["passed_line"] = use->passed.line;
  return row;
}

py::dict awaited_row(const Awaited& one) {
  RowDict row;
  row["fd"] = one.fd;
  row["target"] = target_row(one.target);
  row["paired"] = one.paired;
  py::list holders;
  for (const Holder& holder : one.holders) holders.append(py::make_tuple(holder.pid, holder.fd));
  row["holders"] = holders;
  row["holder_count"] = one.holder_count;
  return row;
}

// The rows of a ring, the oldest first.
template <class Row, class Make>
py::list ring_rows(const std::vector<Row>& ring, std::size_t next, Make make) {
  py::list rows;
  for (std::size_t i = 0; i < ring.size(); ++i) rows.append(make(ring[(next + i) % ring.size()]));
  return rows;
}

void add_summary_of(const Process& process, RowDict& row) {
  row["began"] = time_or_none(process.began);
  row["seen"] = process.seen;
  row["rank"] = texts(process.rank);
  py::list calls;
  std::vector<TaskCall> sorted = process.calls;
  std::sort(sorted.begin(), sorted.end(), [](const TaskCall& a, const TaskCall& b) {
    return std::pair(a.nanoseconds, b.call) > std::pair(b.nanoseconds, a.call);
  });
  for (const TaskCall& one : sorted) {
    calls.append(py::make_tuple(text(call_at(one.call).name), one.calls, one.nanoseconds));
  }
  row["calls"] = calls;
  py::list interruptions;
  for (const Interruption& one : process.interruptions) {
    RowDict signal;
    signal["signal"] = text(one.signal);
    signal["sender"] = one.sender ? py::object(py::int_(one.sender)) : py::none();
    signal["file"] = one.place.file;
    signal["line"] = one.place.line;
    signal["pid"] = one.pid;
    signal["syscall"] = text_or_none(one.syscall);
    signal["target"] = text_or_none(one.target);
    signal["nanoseconds"] = one.nanoseconds;
    interruptions.append(signal);
  }
  row["interruptions"] = interruptions;
  row["last_failures"] =
      ring_rows(process.last_failures, process.next_failure, [](const LastFailure& one) {
        RowDict failure;
        failure["errno"] = text(one.error);
        failure["syscall"] = text(one.syscall);
        failure["path"] = text_or_none(one.path);
        failure["file"] = one.place.file;
        failure["line"] = one.place.line;
        failure["pid"] = one.pid;
        failure["direct"] = one.direct;
        return failure;
      });
  row["last_words"] = ring_rows(process.last_words, process.next_word,
                                [](const LastWord& one) { return text(one.words); });
  row["writing"] = texts(process.writing);
  row["stopped"] = text_or_none(process.stopped);
  row["last_word_lines"] = ring_rows(process.last_words, process.next_word,
                                     [](const LastWord& one) { return one.place.line; });
}

}  // namespace

py::dict match_row(const Match& match) {
  RowDict row;
  row["file"] = match.place.file;
  row["line"] = match.place.line;
  row["entry_line"] = match.entry_line ? py::object(py::int_(match.entry_line)) : py::none();
  row["pid"] = match.pid;
  row["time"] = match.time < 0 ? py::object(py::none()) : py::float_(match.time);
  row["syscall"] = text(match.syscall);
  row["text"] = text(match.text);
  row["errno"] = text_or_none(match.error);
  row["fd"] = match.fd < 0 ? py::object(py::none()) : py::int_(match.fd);
  row["target"] = target_row(match.target);
  row["injected"] = match.injected;
  row["inferred"] = match.inferred;
  py::list holders;
  for (const auto& [name, count] : match.holders) {
    holders.append(py::make_tuple(text(name), count));
  }
  row["holders"] = holders;
  row["ppid"] = match.parent ? py::object(py::int_(match.parent)) : py::none();
  row["thread_of"] = match.thread_of ? py::object(py::int_(match.thread_of)) : py::none();
  row["argv"] = match.argv.empty() ? py::object(py::none()) : texts(match.argv);
  row["nanoseconds"] = match.nanoseconds;
  row["rank"] = texts(match.rank);
  return row;
}

void add_summary(const Tracker& tracker, py::dict& result) {
  py::list slow;
  for (const SlowCall& one : tracker.slow()) {
    py::dict row = match_row(one.call);
    row["pace"] = one.pace == Pace::work      ? "work"
                  : one.pace == Pace::reading ? "reading"
                                              : "waiting";
    slow.append(row);
  }
  result["slow"] = slow;
  py::list connections;
  for (const Connection& one : tracker.connections()) {
    RowDict row;
    row["pid"] = one.pid;
    row["fd"] = one.fd;
    row["peer"] = text(one.peer);
    row["result"] = text(one.result);
    row["file"] = one.place.file;
    row["line"] = one.place.line;
    row["nanoseconds"] = one.nanoseconds;
    row["asked"] = one.asked;
    row["silent_waits"] = one.silent_waits;
    row["silent_nanoseconds"] = one.silent_nanoseconds;
    row["silent_file"] = one.silent.file;
    row["silent_line"] = one.silent.line;
    row["silent_text"] = text(one.silent_text);
    connections.append(row);
  }
  result["connections"] = connections;
  py::list timeouts;
  for (const Timeout& one : tracker.timeouts()) {
    RowDict row;
    row["syscall"] = text(one.syscall);
    row["target"] = text_or_none(one.target);
    row["text"] = text(one.text);
    row["count"] = one.count;
    row["nanoseconds"] = one.nanoseconds;
    row["file"] = one.first.file;
    row["line"] = one.first.line;
    row["pid"] = one.pid;
    timeouts.append(row);
  }
  result["timeouts"] = timeouts;
  py::list names;
  for (const NameMessage& one : tracker.name_messages()) {
    RowDict row;
    row["pid"] = one.pid;
    row["file"] = one.place.file;
    row["line"] = one.place.line;
    row["answer"] = one.answer;
    row["data"] = text(one.data);
    row["peer"] = text(one.peer);
    names.append(row);
  }
  result["name_messages"] = names;
  py::list folders;
  for (const auto& [path, count] : tracker.folders()) {
    folders.append(py::make_tuple(text(path), count.calls, count.errors, count.nanoseconds,
                                  time_or_none(count.first_time), time_or_none(count.last_time)));
  }
  result["folders"] = folders;
  result["first_time"] = time_or_none(tracker.first_time());
  result["last_time"] = time_or_none(tracker.last_time());
}

std::vector<bool> listed_processes(const std::deque<Process>& processes) {
  std::vector<bool> listed(processes.size(), processes.size() <= strace::kMostProcesses);
  if (processes.size() <= strace::kMostProcesses) return listed;
  std::size_t room = strace::kMostProcesses;
  for (const bool bad : {true, false}) {
    for (std::size_t i = 0; i < processes.size() && room > 0; ++i) {
      const auto& end = processes[i].ending;
      const bool ended_badly = end && (!end->signal.empty() || end->code.value_or(0) != 0);
      if (listed[i] || ended_badly != bad) continue;
      listed[i] = true;
      --room;
    }
  }
  return listed;
}

py::dict process_row(const Process& process) {
  RowDict row;
  row["pid"] = process.pid;
  row["ppid"] = process.parent ? py::object(py::int_(process.parent)) : py::none();
  row["thread_of"] = process.thread_of ? py::object(py::int_(process.thread_of)) : py::none();
  row["argv"] = process.argv.empty() ? py::object(py::none()) : texts(process.argv);
  row["exit"] = py::none();
  if (process.ending) {
    RowDict end;
    end["code"] = optional_int(process.ending->code);
    end["signal"] = text_or_none(process.ending->signal);
    end["core"] = process.ending->core;
    end["time"] = time_or_none(process.ending->time);
    end["told"] = process.ending->told;
    end["file"] = process.ending->place.file;
    end["line"] = process.ending->place.line;
    end["sender"] =
        process.ending->sender ? py::object(py::int_(process.ending->sender)) : py::none();
    row["exit"] = end;
  }
  row["blocked_in"] = py::none();
  if (process.blocked) {
    RowDict blocked;
    blocked["file"] = process.blocked->place.file;
    blocked["line"] = process.blocked->place.line;
    blocked["syscall"] = text(process.blocked->syscall);
    blocked["text"] = text(process.blocked->text);
    blocked["target"] =
        process.blocked->target ? py::object(target_row(*process.blocked->target)) : py::none();
    blocked["since"] = time_or_none(process.blocked->since);
    blocked["futex"] = futex_row(process.blocked->futex);
    py::list awaited;
    for (const Awaited& one : process.blocked->awaited) awaited.append(awaited_row(one));
    blocked["awaited"] = awaited;
    row["blocked_in"] = blocked;
  }
  add_summary_of(process, row);
  return row;
}

py::dict call_row(std::string_view name, const CallCount& count) {
  RowDict row;
  row["name"] = text(name);
  row["calls"] = count.calls;
  row["errors"] = count.errors;
  row["nanoseconds"] = count.nanoseconds;
  return row;
}

py::dict failure_row(const Failure& failure) {
  RowDict row;
  row["errno"] = text(failure.error);
  row["syscall"] = text(failure.syscall);
  row["path"] = text_or_none(failure.path);
  row["kind"] = kind_name(failure.kind);
  row["count"] = failure.count;
  row["injected"] = failure.injected;
  row["file"] = failure.first.file;
  row["line"] = failure.first.line;
  row["pid"] = failure.pid;
  return row;
}

py::dict counts_row(const Counts& counts) {
  RowDict row;
  row["lines"] = counts.lines;
  row["calls"] = counts.calls;
  row["signals"] = counts.signals;
  row["exits"] = counts.exits;
  row["remarks"] = counts.remarks;
  row["output"] = counts.output;
  row["unparsed"] = counts.unparsed;
  row["pids"] = counts.pids;
  row["brackets"] = counts.brackets;
  row["times"] = counts.times;
  row["relative"] = counts.relative;
  row["epochs"] = counts.epochs;
  row["annotations"] = counts.annotations;
  row["colors"] = counts.colors;
  row["traces"] = counts.traces;
  row["summary"] = counts.summary;
  row["halves"] = counts.halves;
  row["durations"] = counts.durations;
  row["detached"] = counts.detached;
  row["cut"] = counts.cut;
  return row;
}

py::dict check_row(const Check& check) {
  RowDict row;
  row["uses"] = check.uses;
  row["right"] = check.right;
  row["wrong"] = check.wrong;
  row["unknown"] = check.unknown;
  row["examples"] = texts(check.examples);
  return row;
}

}  // namespace pm::bind
