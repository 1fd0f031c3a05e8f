// Exceptions that a thread was raising or handling.
#pragma once

#include <cstdint>
#include <optional>

#include "cpython/code.h"
#include "cpython/frames.h"
#include "cpython/heap.h"
#include "cpython/python.h"

namespace pm::cpython {

class Exceptions {
 public:
  Exceptions(const Heap& heap, Codes& codes, const Frames& frames)
      : heap_(heap), codes_(codes), frames_(frames) {}

  std::optional<Exception> raised(std::uint64_t thread_state) const;
  std::optional<Exception> handled(std::uint64_t thread_state) const;

 private:
  Exception describe(std::uint64_t exception) const;
  std::string type_name(const Type& type) const;
  std::string message(std::uint64_t exception) const;
  std::string os_error_message(std::uint64_t exception) const;
  bool derives(const Type& type, std::string_view base) const;
  void add_traceback(std::uint64_t traceback, Exception& exception) const;
  std::uint64_t linked(std::uint64_t exception, bool& cause) const;

  const Heap& heap_;
  Codes& codes_;
  const Frames& frames_;
};

}  // namespace pm::cpython
