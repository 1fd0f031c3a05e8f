// read_strace(): one call for a whole log; answers come back, not lines.
#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <algorithm>

#include "bind/register.h"
#include "bind/values.h"
#include "strace/log.h"

namespace py = pybind11;

namespace pm::bind {
namespace {

using namespace pm::strace;

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
  py::dict row;
  row["file"] = opened->place.file;
  row["line"] = opened->place.line;
  row["pid"] = opened->pid;
  row["syscall"] = opened->call == kUnknownCall ? py::str("") : text(call_at(opened->call).name);
  return row;
}

py::dict target_row(const Target& target) {
  py::dict row;
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

py::dict match_row(const Match& match) {
  py::dict row;
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
  row["ppid"] = match.parent ? py::object(py::int_(match.parent)) : py::none();
  row["thread_of"] = match.thread_of ? py::object(py::int_(match.thread_of)) : py::none();
  row["argv"] = match.argv.empty() ? py::object(py::none()) : texts(match.argv);
  row["nanoseconds"] = match.nanoseconds;
  row["rank"] = texts(match.rank);
  return row;
}

py::object time_or_none(double time) {
  return time < 0 ? py::object(py::none()) : py::float_(time);
}

py::object futex_row(const std::optional<FutexUse>& use) {
  if (!use) return py::none();
  py::dict row;
  row["woken_by"] = use->woken_by;
  row["woken_line"] = use->woken.line;
  row["passed_by"] = use->passed_by;
  row["passed_line"] = use->passed.line;
  return row;
}

py::dict awaited_row(const Awaited& one) {
  py::dict row;
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

void add_summary_of(const Process& process, py::dict& row) {
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
    py::dict signal;
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
        py::dict failure;
        failure["errno"] = text(one.error);
        failure["syscall"] = text(one.syscall);
        failure["path"] = text_or_none(one.path);
        failure["file"] = one.place.file;
        failure["line"] = one.place.line;
        failure["pid"] = one.pid;
        return failure;
      });
  row["last_words"] = ring_rows(process.last_words, process.next_word,
                                [](const std::string& words) { return text(words); });
}

py::dict process_row(const Process& process) {
  py::dict row;
  row["pid"] = process.pid;
  row["ppid"] = process.parent ? py::object(py::int_(process.parent)) : py::none();
  row["thread_of"] = process.thread_of ? py::object(py::int_(process.thread_of)) : py::none();
  row["argv"] = process.argv.empty() ? py::object(py::none()) : texts(process.argv);
  row["exit"] = py::none();
  if (process.ending) {
    py::dict end;
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
    py::dict blocked;
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
  py::dict row;
  row["name"] = text(name);
  row["calls"] = count.calls;
  row["errors"] = count.errors;
  row["nanoseconds"] = count.nanoseconds;
  return row;
}

py::dict failure_row(const Failure& failure) {
  py::dict row;
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
  py::dict row;
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
  py::dict row;
  row["uses"] = check.uses;
  row["right"] = check.right;
  row["wrong"] = check.wrong;
  row["unknown"] = check.unknown;
  row["examples"] = texts(check.examples);
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
    py::dict row;
    row["pid"] = one.pid;
    row["fd"] = one.fd;
    row["peer"] = text(one.peer);
    row["result"] = text(one.result);
    row["file"] = one.place.file;
    row["line"] = one.place.line;
    row["nanoseconds"] = one.nanoseconds;
    connections.append(row);
  }
  result["connections"] = connections;
  py::list timeouts;
  for (const Timeout& one : tracker.timeouts()) {
    py::dict row;
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
  py::list folders;
  for (const auto& [path, count] : tracker.folders()) {
    folders.append(py::make_tuple(text(path), count.calls, count.errors, count.nanoseconds,
                                  time_or_none(count.first_time), time_or_none(count.last_time)));
  }
  result["folders"] = folders;
  result["first_time"] = time_or_none(tracker.first_time());
  result["last_time"] = time_or_none(tracker.last_time());
}

std::vector<Query> queries_of(const py::list& rows) {
  std::vector<Query> queries;
  for (const py::handle row : rows) {
    const auto dict = row.cast<py::dict>();
    Query query;
    query.errors = dict["errors"].cast<std::vector<std::string>>();
    query.calls = dict["calls"].cast<std::vector<std::string>>();
    query.pid = dict["pid"].is_none() ? -1 : dict["pid"].cast<std::int64_t>();
    query.fd = dict["fd"].is_none() ? -1 : dict["fd"].cast<std::int64_t>();
    query.path = dict["path"].is_none() ? "" : dict["path"].cast<std::string>();
    query.slower = dict["slower"].cast<std::uint64_t>();
    queries.push_back(std::move(query));
  }
  return queries;
}

// Reads from a Python callable that gives the next bytes, or none at the end.
Pull pull_from(const py::function& next) {
  struct State {
    py::function next;
    std::string piece;
    std::size_t at = 0;
    ~State() {
      const py::gil_scoped_acquire gil;
      next = py::function();
    }
  };
  auto state = std::make_shared<State>();
  state->next = next;
  return [state](char* to, std::size_t size) -> std::size_t {
    if (state->at == state->piece.size()) {
      const py::gil_scoped_acquire gil;
      const py::bytes piece = state->next();
      state->piece = piece;
      state->at = 0;
    }
    const std::size_t count = std::min(size, state->piece.size() - state->at);
    std::memcpy(to, state->piece.data() + state->at, count);
    state->at += count;
    return count;
  };
}

std::vector<LogFile> log_files(const py::list& rows) {
  std::vector<LogFile> files;
  for (const py::handle row : rows) {
    const auto pair = row.cast<py::tuple>();
    LogFile file;
    file.pid = pair[1].cast<std::uint32_t>();
    if (py::isinstance<py::int_>(pair[0])) {
      file.pull = strace::pull_from(pair[0].cast<int>());
    } else {
      file.pull = bind::pull_from(pair[0].cast<py::function>());
    }
    files.push_back(std::move(file));
  }
  return files;
}

py::dict read_strace(const py::list& sources, std::vector<std::string> errors,
                     std::vector<std::string> calls, std::vector<std::string> signals,
                     bool statistics, bool infer_sigbus, bool check, unsigned threads,
                     std::size_t block_bytes, std::size_t most_matches, const py::list& queries,
                     std::uint32_t only) {
  LogOptions options;
  options.wanted.queries = queries_of(queries);
  if (!errors.empty()) {
    Query query;
    query.errors = std::move(errors);
    options.wanted.queries.push_back(std::move(query));
  }
  if (!calls.empty()) {
    Query query;
    query.calls = std::move(calls);
    options.wanted.queries.push_back(std::move(query));
  }
  options.tracker.only = only;
  options.wanted.statistics = statistics;
  options.wanted.uses = check;
  options.tracker.statistics = statistics;
  options.tracker.annotations = !check;
  options.tracker.infer_sigbus = infer_sigbus;
  options.tracker.signals = std::move(signals);
  options.tracker.most_matches = most_matches;
  options.threads = threads;
  options.block_bytes = block_bytes;
  std::vector<LogFile> files = log_files(sources);
  Log log;
  {
    const py::gil_scoped_release release;
    log = read_logs(std::move(files), options);
    files.clear();
  }
  const Tracker& tracker = *log.tracker;
  py::dict result;
  py::list matches;
  for (const Match& match : tracker.matches()) matches.append(match_row(match));
  result["matches"] = matches;
  result["match_count"] = tracker.match_count();
  py::list processes;
  for (const Process& process : tracker.processes()) processes.append(process_row(process));
  result["processes"] = processes;
  py::list statistic_rows;
  for (std::size_t i = 0; i < log.statistics.size(); ++i) {
    if (log.statistics[i].calls) {
      statistic_rows.append(
          call_row(call_at(static_cast<std::uint16_t>(i)).name, log.statistics[i]));
    }
  }
  for (const auto& [name, count] : log.other_calls) statistic_rows.append(call_row(name, count));
  result["syscalls"] = statistic_rows;
  py::list failures;
  for (const Failure& failure : tracker.failures()) failures.append(failure_row(failure));
  result["failures"] = failures;
  py::list file_rows;
  for (const auto& [path, count] : tracker.files()) {
    file_rows.append(py::make_tuple(text(path), count.opens, count.read_bytes, count.written_bytes,
                                    count.errors, count.reads, count.writes));
  }
  result["files"] = file_rows;
  add_summary(tracker, result);
  result["counts"] = counts_row(log.counts);
  result["check"] = check_row(tracker.check());
  result["forgotten"] = tracker.forgotten();
  result["io_uring"] = tracker.used_io_uring();
  result["open_for_writing"] = texts(tracker.open_for_writing());
  py::set libraries;
  for (const std::string& name : tracker.libraries()) libraries.add(text(name));
  result["libraries"] = libraries;
  result["opens"] = tracker.opens_seen();
  result["lone_halves"] = tracker.unmatched_halves();
  result["bytes"] = log.file_bytes;
  result["cut_lines"] = log.cut_lines;
  result["by_time"] = log.by_time;
  result["first_unparsed"] = text_or_none(log.first_unparsed);
  result["first_unparsed_file"] = log.first_unparsed_place.file;
  result["first_unparsed_line"] = log.first_unparsed_place.line;
  return result;
}

const char* shape_name(Shape shape) {
  static constexpr const char* kNames[] = {
      "call",   "entry", "detached", "resumed", "dead",       "open", "signal", "exit",
      "notice", "trace", "dump",     "summary", "diagnostic", "rest", "empty",  "text"};
  return kNames[static_cast<std::size_t>(shape)];
}

py::dict read_strace_line(const std::string& line) {
  std::string padded = line;
  padded.append(kPadding, '\0');
  const Line read = read_line(padded.data(), padded.data() + line.size());
  py::dict row;
  row["shape"] = shape_name(read.shape);
  row["pid"] = read.leader.has_pid ? py::object(py::int_(read.leader.pid)) : py::none();
  row["time"] = text_or_none(read.leader.time);
  row["name"] = text_or_none(read.name);
  py::list arguments;
  Result result;
  if (read.arguments) {
    Arguments all(read.arguments, read.end);
    std::string_view argument;
    while (all.next(argument)) {
      arguments.append(
          raw({reinterpret_cast<const std::uint8_t*>(argument.data()), argument.size()}));
    }
    if (read.shape == Shape::call || read.shape == Shape::resumed) {
      result = read_result(read.arguments, read.end);
      const Result exact = read_result(read.arguments, read.end, true);
      row["agrees"] =
          !exact.present || (exact.value == result.value && exact.error == result.error);
    }
  }
  row["arguments"] = arguments;
  row["result"] = result.known ? py::object(py::int_(result.value)) : py::none();
  row["errno"] = text_or_none(result.error);
  row["injected"] = result.injected;
  row["seconds"] = text_or_none(result.seconds);
  row["annotation"] = text_or_none(result.annotation);
  return row;
}

}  // namespace

void register_strace(py::module_& module) {
  module.def("read_strace", &read_strace, py::arg("sources"), py::kw_only(),
             py::arg("errors") = std::vector<std::string>{},
             py::arg("calls") = std::vector<std::string>{},
             py::arg("signals") = std::vector<std::string>{}, py::arg("statistics") = false,
             py::arg("infer_sigbus") = false, py::arg("check") = false, py::arg("threads") = 2,
             py::arg("block_bytes") = BlockReader::kBlockBytes, py::arg("most_matches") = 5000,
             py::arg("queries") = py::list(), py::arg("only") = 0);
  module.def("read_strace_line", &read_strace_line, py::arg("line"));
}

}  // namespace pm::bind
