// read_flight_recorder(): a pickled dump of PyTorch's flight recorder, equal parts once.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "bind/register.h"
#include "bind/rows.h"
#include "flightrec/fields.h"

namespace py = pybind11;

namespace pm::bind {
namespace {

using namespace pm::flightrec;

py::tuple shape_row(const Dump& dump, const Shape& shape) {
  return py::make_tuple(
      text(shape.group), text(shape.group_words), shape.group_number, text(shape.operation),
      text(shape.state), values_of(dump.sizes[shape.input_sizes], {}),
      values_of(dump.sizes[shape.output_sizes], {}), values_of(dump.dtypes[shape.dtypes], {}),
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
  py::list shapes;
  for (const Shape& shape : dump.shapes) shapes.append(shape_row(dump, shape));
  result["version"] = text(dump.version);
  result["numbers"] = column(dump.calls, &Call::sequence);
  result["shape_of"] = column(dump.calls, &Call::shape);
  result["created"] = column(dump.calls, &Call::created_ns);
  result["started"] = column(dump.calls, &Call::started_ns);
  result["shapes"] = shapes;
  result["frames"] = tuple_of(dump.frames, {});
  result["stacks"] = values_of(dump.stacks, {});
  result["members"] = tuple_of(dump.members, {});
  result["status"] = tuple_of(dump.status, {});
  return result;
}

}  // namespace

void register_flight_recorder(py::module_& module) {
  using py::literals::operator""_a;
  module.def("read_flight_recorder", &read_flight_recorder, "data"_a,
             "Reads a pickled dump of PyTorch's flight recorder without running it.");
}

}  // namespace pm::bind
