#include "bind/python.h"

#include <string>
#include <unordered_map>

#include "bind/rows.h"
#include "cpython/fields.h"

namespace py = pybind11;

namespace pm::bind {
namespace {

// Threads in the same place share one list of rows, as they do for native frames.
class FrameRows {
 public:
  py::list of(const std::vector<cpython::Frame>& frames) {
    const auto [place, is_new] = lists_.try_emplace(key_of(frames));
    if (is_new) {
      for (const cpython::Frame& frame : frames) place->second.append(row_of(frame));
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
  FrameRows made;
  const auto with_frames = [&](const auto& all) {
    py::list rows;
    for (const auto& one : all) {
      py::dict row = row_of(one);
      row["frames"] = made.of(one.frames);
      rows.append(row);
    }
    return rows;
  };
  py::dict row = row_of(python);
  row["threads"] = with_frames(python.threads);
  row["tasks"] = with_frames(python.tasks);
  row["greenlets"] = with_frames(python.greenlets);
  return row;
}

}  // namespace pm::bind
