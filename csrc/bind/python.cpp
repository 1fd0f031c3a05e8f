#include "bind/python.h"

#include <string>
#include <unordered_map>

#include "bind/values.h"

namespace py = pybind11;

namespace pm::bind {
namespace {

py::dict frame_row(const cpython::Frame& frame) {
  py::list locals;
  for (const auto& [name, value] : frame.locals) {
    locals.append(py::make_tuple(text(name), text(value)));
  }
  py::dict row;
  row["function"] = text(frame.function);
  row["file"] = text_or_none(frame.file);
  row["line"] = optional_int(frame.line);
  row["entry"] = frame.evaluators > 0;
  row["evaluators"] = frame.evaluators;
  row["locals"] = locals;
  return row;
}

py::object exception_row(const std::optional<cpython::Exception>& exception) {
  if (!exception) return py::none();
  py::list traceback;
  for (const cpython::TracebackLine& line : exception->traceback) {
    py::dict entry;
    entry["file"] = text_or_none(line.file);
    entry["line"] = optional_int(line.line);
    entry["function"] = text(line.function);
    traceback.append(entry);
  }
  py::list chain;
  for (const cpython::LinkedException& link : exception->chain) {
    py::dict entry;
    entry["relation"] = link.cause ? "cause" : "context";
    entry["type"] = text(link.type);
    entry["message"] = text(link.message);
    chain.append(entry);
  }
  py::dict row;
  row["type"] = text(exception->type);
  row["message"] = text(exception->message);
  row["traceback"] = traceback;
  row["traceback_skipped"] = exception->traceback_skipped;
  row["chain"] = chain;
  return row;
}

py::dict lock_row(const cpython::Lock& lock) {
  py::dict row;
  row["object"] = lock.object;
  row["word"] = lock.word;
  row["recursive"] = lock.recursive;
  row["owner"] = lock.owner;
  row["owner_tid"] = lock.owner_tid ? py::object(py::int_(lock.owner_tid)) : py::none();
  return row;
}

py::list held_rows(const std::vector<cpython::HeldLock>& held) {
  py::list rows;
  for (const cpython::HeldLock& lock : held) {
    py::dict row = lock_row(lock);
    row["frame"] = lock.frame;
    rows.append(row);
  }
  return rows;
}

py::list lock_rows(const std::vector<cpython::Lock>& locks) {
  py::list rows;
  for (const cpython::Lock& lock : locks) rows.append(lock_row(lock));
  return rows;
}

// Threads in the same place share one list of rows, as they do for native frames.
class FrameRows {
 public:
  py::list of(const std::vector<cpython::Frame>& frames) {
    const auto [place, is_new] = lists_.try_emplace(key_of(frames));
    if (is_new) {
      for (const cpython::Frame& frame : frames) place->second.append(frame_row(frame));
    }
    return place->second;
  }

 private:
  // All that a row has, its texts with their lengths, so that no two stacks look alike.
  static std::string key_of(const std::vector<cpython::Frame>& frames) {
    std::string key;
    const auto add = [&key](std::string_view part) {
      key += std::to_string(part.size());
      key += ':';
      key += part;
    };
    for (const cpython::Frame& frame : frames) {
      add(frame.function);
      add(frame.file);
      add(frame.line ? std::to_string(*frame.line) : "");
      add(std::to_string(frame.evaluators));
      add(std::to_string(frame.locals.size()));
      for (const auto& [name, value] : frame.locals) {
        add(name);
        add(value);
      }
    }
    return key;
  }

  std::unordered_map<std::string, py::list> lists_;
};

py::dict thread_row(const cpython::Thread& thread, FrameRows& made) {
  py::dict row;
  row["tid"] = thread.tid ? py::object(py::int_(thread.tid)) : py::none();
  row["name"] = text_or_none(thread.name);
  row["holds_gil"] = thread.holds_gil;
  row["frames"] = made.of(thread.frames);
  row["idle_evaluators"] = thread.idle_evaluators;
  row["skipped"] = thread.skipped;
  row["skipped_at"] = thread.skipped ? py::object(py::int_(thread.skipped_at)) : py::none();
  row["stopped"] = text_or_none(thread.stopped);
  row["held"] = held_rows(thread.held);
  row["at_hand"] = lock_rows(thread.at_hand);
  row["end_word"] = thread.end_word;
  row["object"] = thread.object;
  row["receiver"] = thread.receiver;
  row["raised"] = exception_row(thread.raised);
  row["handled"] = exception_row(thread.handled);
  return row;
}

}  // namespace

cpython::PythonState read_python(const elfcore::Memory& memory, const cpython::Options& options,
                                 Problems& problems) {
  cpython::PythonState result = cpython::read_python(memory, options);
  for (const Problem& problem : result.problems.rows()) {
    problems.add(problem.where, problem.what, problem.remedy);
  }
  return result;
}

py::object python_row(const cpython::PythonState& python) {
  if (!python.found) return py::none();
  py::list threads;
  FrameRows made;
  for (const cpython::Thread& thread : python.threads) threads.append(thread_row(thread, made));
  py::dict row;
  row["version"] = text(python.version);
  row["library"] = text(python.library);
  row["gil_holder"] = optional_int(python.gil_holder);
  row["gil"] = python.gil;
  row["gil_enabled"] = python.gil_enabled;
  row["threads"] = threads;
  return row;
}

}  // namespace pm::bind
