#include "bind/pull.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "bind/interrupt.h"
#include "strace/blocks.h"

namespace py = pybind11;

namespace pm::bind {
namespace {

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

}  // namespace

Pull pull_from_python(const py::handle& source) {
  Pull inner = py::isinstance<py::int_>(source) ? strace::pull_from(source.cast<int>())
                                                : pull_from(source.cast<py::function>());
  return [inner = std::move(inner)](char* to, std::size_t size) {
    if (InterruptWatch::seen()) throw Interrupted();
    return inner(to, size);
  };
}

}  // namespace pm::bind
