// read_flight_recorder(): a pickled dump of PyTorch's flight recorder, equal parts once.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "bind/register.h"
#include "bind/values.h"
#include "flightrec/dump.h"

namespace py = pybind11;

namespace pm::bind {
namespace {

using namespace pm::flightrec;

py::tuple sizes_row(const Sizes& sizes) {
  py::list rows;
  for (const auto& row : sizes) {
    py::list numbers;
    for (const std::int64_t number : row) numbers.append(number);
    rows.append(py::tuple(numbers));
  }
  return py::tuple(rows);
}

py::tuple shape_row(const Dump& dump, const Shape& shape) {
  return py::make_tuple(
      text(shape.group), text(shape.group_words), shape.group_number, text(shape.operation),
      text(shape.state), sizes_row(dump.sizes[shape.input_sizes]),
      sizes_row(dump.sizes[shape.output_sizes]), py::tuple(texts(dump.dtypes[shape.dtypes])),
      shape.timeout_ms, shape.retired, shape.is_p2p, shape.stack);
}

// One field of all calls, as array.array reads it.
template <class T>
py::bytes column(const std::vector<Call>& calls, T Call::* field) {
  std::vector<T> values;
  values.reserve(calls.size());
  for (const Call& call : calls) values.push_back(call.*field);
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

py::dict read_flight_recorder(const py::bytes& data) {
  const std::string_view view = data;
  const Bytes bytes(reinterpret_cast<const std::uint8_t*>(view.data()), view.size());
  Dump dump;
  {
    const py::gil_scoped_release release;
    dump = read_dump(bytes);
  }
  py::dict result;
  py::list shapes, frames, stacks, members, status;
  for (const Shape& shape : dump.shapes) shapes.append(shape_row(dump, shape));
  for (const Frame& frame : dump.frames) {
    const py::object line = frame.line < 0 ? py::object(py::none()) : py::int_(frame.line);
    frames.append(py::make_tuple(text(frame.name), text_or_none(frame.file), line));
  }
  for (const auto& stack : dump.stacks) {
    py::list places;
    for (const std::uint32_t place : stack) places.append(place);
    stacks.append(py::tuple(places));
  }
  for (const Members& group : dump.members) {
    py::list ranks;
    for (const std::int64_t rank : group.ranks) ranks.append(rank);
    members.append(
        py::make_tuple(text(group.group), text(group.words), text_or_none(group.text), ranks));
  }
  for (const Status& one : dump.status) {
    status.append(py::make_tuple(one.group_number, one.enqueued, one.started, one.completed));
  }
  result["version"] = text(dump.version);
  result["numbers"] = column(dump.calls, &Call::sequence);
  result["shape_of"] = column(dump.calls, &Call::shape);
  result["created"] = column(dump.calls, &Call::created_ns);
  result["started"] = column(dump.calls, &Call::started_ns);
  result["shapes"] = shapes;
  result["frames"] = frames;
  result["stacks"] = stacks;
  result["members"] = members;
  result["status"] = status;
  return result;
}

}  // namespace

void register_flight_recorder(py::module_& module) {
  using py::literals::operator""_a;
  module.def("read_flight_recorder", &read_flight_recorder, "data"_a,
             "Reads a pickled dump of PyTorch's flight recorder without running it.");
}

}  // namespace pm::bind
