// read_strace(): one call for a whole log; answers come back, not lines.
#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include "bind/exports.h"
#include "bind/interrupt.h"
#include "bind/pull.h"
#include "bind/register.h"
#include "bind/rows.h"
#include "bind/values.h"
#include "strace/fields.h"
#include "strace/log.h"
#include "strace/sweep.h"

namespace py = pybind11;

namespace pm::bind {
namespace {

using namespace pm::strace;

std::vector<Query> queries_of(const py::list& rows) {
  std::vector<Query> queries;
  for (const py::handle row : rows) {
    const auto dict = row.cast<py::dict>();
    Query query;
    query.errors = dict["errors"].cast<std::vector<std::string>>();
    query.calls = dict["calls"].cast<std::vector<std::string>>();
    query.pid = dict["pid"].is_none() ? -1 : dict["pid"].cast<std::int64_t>();
    query.fd = dict["fd"].is_none() ? -1 : dict["fd"].cast<std::int64_t>();
    query.path = dict["path"].is_none() ? "" : dict["path"].cast<std::filesystem::path>();
    query.slower = dict["slower"].cast<std::uint64_t>();
    queries.push_back(std::move(query));
  }
  return queries;
}

std::vector<LogFile> log_files(const py::list& rows) {
  std::vector<LogFile> files;
  for (const py::handle row : rows) {
    const auto pair = row.cast<py::tuple>();
    LogFile file;
    file.pid = pair[1].cast<std::uint32_t>();
    file.pull = pull_from_python(pair[0]);
    files.push_back(std::move(file));
  }
  return files;
}

// Python has the signal too: its handler runs here, and says what becomes of it.
[[noreturn]] void raise_interrupt() {
  if (PyErr_CheckSignals() == 0) PyErr_SetNone(PyExc_KeyboardInterrupt);
  throw py::error_already_set();
}

// Reads without the GIL; Ctrl-C becomes KeyboardInterrupt within a block.
Log read_interruptibly(std::vector<LogFile>& files, const LogOptions& options) {
  {
    const InterruptWatch watch;
    const py::gil_scoped_release release;
    try {
      Log log = read_logs(std::move(files), options);
      files.clear();
      return log;
    } catch (...) {  // also what a callable threw when it saw the signal
      files.clear();
      if (!InterruptWatch::seen()) throw;
    }
  }
  raise_interrupt();
}

py::tuple sweep_log(int descriptor, std::uint64_t size, const std::vector<std::string>& words,
                    unsigned threads, bool from_start) {
  Sweep found;
  bool interrupted = false;
  {
    const InterruptWatch watch;
    const py::gil_scoped_release release;
    found = sweep(descriptor, size, words, threads, from_start, InterruptWatch::seen);
    interrupted = InterruptWatch::seen();
  }
  if (interrupted) raise_interrupt();
  return py::make_tuple(found.absent, found.lines);
}

// Which processes have a row: of very many those that ended badly, and the first of the others. A
// line of a log may be all that there is of one, and its row takes a hundred times as much.
std::vector<bool> listed_processes(const std::deque<Process>& processes) {
  constexpr std::size_t kMostRows = Processes::kMostTold;
  std::vector<bool> listed(processes.size(), processes.size() <= kMostRows);
  if (processes.size() <= kMostRows) return listed;
  std::size_t room = kMostRows;
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

py::object time_or_none(double time) {
  return time < 0 ? py::object(py::none()) : py::float_(time);
}

py::list call_rows(const Log& log) {
  py::list rows;
  const auto add = [&](std::string_view name, const CallCount& count) {
    py::dict row = row_of(count);
    row["name"] = text(name);
    rows.append(row);
  };
  for (std::size_t i = 0; i < log.statistics.size(); ++i) {
    if (log.statistics[i].calls) {
      add(call_at(static_cast<std::uint16_t>(i)).name, log.statistics[i]);
    }
  }
  for (const auto& [name, count] : log.other_calls) add(name, count);
  return rows;
}

template <class Map>
py::list named_rows(const Map& counts) {
  py::list rows;
  for (const auto& [name, count] : counts) rows.append(tuple_behind(count, {}, name));
  return rows;
}

py::dict read_strace(const py::list& sources, std::vector<std::string> errors,
                     std::vector<std::string> calls, std::vector<std::string> signals,
                     bool statistics, bool infer_sigbus, bool check, unsigned threads,
                     std::size_t block_bytes, std::size_t most_matches, std::size_t most_of_one,
                     const py::list& queries, std::uint32_t only, const py::list& exports,
                     std::string label, std::vector<std::string> names, const py::object& learn) {
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
  options.tracker.most_of_one = most_of_one;
  options.threads = threads;
  options.block_bytes = block_bytes;
  std::vector<LogFile> files = log_files(sources);
  const std::vector<std::string> given_names = names;
  names.resize(files.size());
  Feed feed({std::move(label), std::move(names)}, sinks_of(exports), learn_of(learn));
  if (!exports.empty()) {
    options.wanted.every = true;
    options.tracker.observer = &feed;
  }
  Log log = read_interruptibly(files, options);
  const Tracker& tracker = *log.tracker;
  Names files_by_number;
  for (const std::string& name : given_names) files_by_number.push_back(text(name));
  const auto rows = [&](const auto& range) { return rows_of(range, files_by_number); };
  py::dict result;
  result["matches"] = rows(tracker.hits().matches());
  result["match_count"] = tracker.hits().match_count();
  py::list processes;
  const std::deque<Process>& all = tracker.processes().records();
  const std::vector<bool> listed = listed_processes(all);
  for (std::size_t i = 0; i < listed.size(); ++i) {
    if (listed[i]) processes.append(row_of(all[i], files_by_number));
  }
  result["processes"] = processes;
  result["unlisted"] = all.size() - processes.size();
  result["syscalls"] = call_rows(log);
  result["failures"] = rows(tracker.hits().failures());
  result["files"] = named_rows(tracker.files().counts());
  result["folders"] = named_rows(tracker.summary().folders());
  result["slow"] = rows(tracker.summary().slow());
  result["connections"] = rows(tracker.sockets().connections());
  result["timeouts"] = rows(tracker.summary().timeouts());
  result["name_messages"] = rows(tracker.sockets().name_messages());
  result["first_time"] = time_or_none(tracker.summary().first_time());
  result["last_time"] = time_or_none(tracker.summary().last_time());
  result["counts"] = row_of(log.counts);
  result["check"] = row_of(tracker.files().checked());
  result["forgotten"] = tracker.processes().forgotten();
  result["io_uring"] = tracker.files().used_io_uring();
  result["open_for_writing"] = texts(tracker.files().open_for_writing());
  py::set libraries;
  for (const std::string& name : tracker.files().libraries()) libraries.add(text(name));
  result["libraries"] = libraries;
  result["opens"] = tracker.files().opens_seen();
  result["lone_halves"] = tracker.unmatched_halves();
  result["bytes"] = log.file_bytes;
  result["cut_lines"] = log.cut_lines;
  result["by_time"] = log.by_time;
  result["summed"] = log.summed;
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
             py::arg("block_bytes") = 0, py::arg("most_matches") = 5000,
             py::arg("most_of_one") = 5000, py::arg("queries") = py::list(), py::arg("only") = 0,
             py::arg("exports") = py::list(), py::arg("label") = "",
             py::arg("names") = std::vector<std::string>{}, py::arg("learn") = py::none());
  module.def("sweep_log", &sweep_log, py::arg("descriptor"), py::arg("size"), py::arg("words"),
             py::arg("threads") = 2, py::arg("from_start") = false);
  module.def("interrupt_seen", &InterruptWatch::seen);
  module.def("read_strace_line", &read_strace_line, py::arg("line"));
}

}  // namespace pm::bind
