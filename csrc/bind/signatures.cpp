// compile_signatures(), scan_signatures(), scan_signature_lines().
#include "signatures/scanner.h"

#include <pybind11/stl.h>

#include "bind/register.h"
#include "bind/values.h"

namespace py = pybind11;

namespace pm::bind {
namespace {

constexpr const char* kName = "postmortem.signatures";

const signatures::Scanner& scanner(const py::capsule& compiled) {
  if (std::string_view(compiled.name()) != kName) throw py::type_error("not compiled signatures");
  return *compiled.get_pointer<signatures::Scanner>();
}

py::capsule compile_signatures(const std::vector<std::string>& patterns) {
  auto made = std::make_unique<signatures::Scanner>(patterns);
  return {made.release(), kName,
          [](void* pointer) { delete static_cast<signatures::Scanner*>(pointer); }};
}

// A contiguous buffer, held as long as this lives.
class Held {
 public:
  explicit Held(const py::buffer& source) {
    if (PyObject_GetBuffer(source.ptr(), &view_, PyBUF_SIMPLE) != 0) throw py::error_already_set();
  }
  ~Held() { PyBuffer_Release(&view_); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  std::string_view text() const {
    return {static_cast<const char*>(view_.buf), static_cast<std::size_t>(view_.len)};
  }
  std::span<const std::int64_t> numbers() const {
    if (view_.len % 8 != 0 || reinterpret_cast<std::uintptr_t>(view_.buf) % 8 != 0) {
      throw py::value_error("places are numbers of 64 bits");
    }
    return {static_cast<const std::int64_t*>(view_.buf), static_cast<std::size_t>(view_.len / 8)};
  }

 private:
  Py_buffer view_{};
};

py::dict named(const signatures::Scanner& all, std::uint32_t signature, std::string_view data,
               const std::vector<signatures::Capture>& captures) {
  py::dict groups;
  for (const signatures::Capture& capture : captures) {
    groups[text(all.groups(signature)[capture.group - 1])] =
        text(data.substr(capture.begin, capture.end - capture.begin));
  }
  return groups;
}

py::tuple scan_signatures(const py::capsule& compiled, const py::buffer& data, std::uint64_t each) {
  const signatures::Scanner& all = scanner(compiled);
  const Held held(data);
  signatures::Found found;
  {
    const py::gil_scoped_release release;
    found = all.scan(held.text(), each);
  }
  py::list rows;
  for (const signatures::Hit& hit : found.hits) {
    rows.append(
        py::make_tuple(hit.signature, hit.begin, hit.end, hit.line,
                       text(held.text().substr(hit.text_begin, hit.text_end - hit.text_begin)),
                       named(all, hit.signature, held.text(), hit.captures)));
  }
  return py::make_tuple(rows, py::cast(found.counts), found.line_ends);
}

py::list scan_signature_lines(const py::capsule& compiled, const py::buffer& data,
                              const py::buffer& begins, const py::buffer& ends) {
  const signatures::Scanner& all = scanner(compiled);
  const Held held(data);
  const Held first(begins);
  const Held last(ends);
  const auto from = first.numbers();
  const auto to = last.numbers();
  if (from.size() != to.size()) throw py::value_error("as many ends as begins are wanted");
  std::vector<signatures::LineHit> hits;
  {
    const py::gil_scoped_release release;
    hits = all.scan_lines(held.text(), from, to);
  }
  py::list rows(hits.size());
  for (std::size_t i = 0; i < hits.size(); ++i) {
    const signatures::LineHit& hit = hits[i];
    const auto at = static_cast<std::size_t>(from[hit.line]);
    const auto size = static_cast<std::size_t>(to[hit.line]) - at;
    rows[i] = py::make_tuple(hit.line, hit.signature,
                             named(all, hit.signature, held.text().substr(at, size), hit.captures));
  }
  return rows;
}

py::list signature_literals(const py::capsule& compiled) {
  const signatures::Scanner& all = scanner(compiled);
  py::list rows;
  for (std::uint32_t i = 0; i < all.size(); ++i) rows.append(texts(all.literals(i)));
  return rows;
}

std::vector<std::uint32_t> texts_in(const std::vector<std::string>& texts, const py::buffer& data) {
  const Held held(data);
  const py::gil_scoped_release release;
  return pm::texts_in(texts, held.text());
}

}  // namespace

void register_signatures(py::module_& module) {
  module.def("compile_signatures", &compile_signatures, py::arg("patterns"));
  module.def("scan_signatures", &scan_signatures, py::arg("compiled"), py::arg("data"),
             py::arg("each"));
  module.def("scan_signature_lines", &scan_signature_lines, py::arg("compiled"), py::arg("data"),
             py::arg("begins"), py::arg("ends"));
  module.def("signature_literals", &signature_literals, py::arg("compiled"));
  module.def("texts_in", &texts_in, py::arg("texts"), py::arg("data"));
}

}  // namespace pm::bind
