#include "elfcore/python_error.h"

namespace pm::elfcore {
namespace {

constexpr std::size_t kMaxErrorText = 1 << 14;
constexpr std::size_t kMaxErrorName = 256;

std::optional<std::string> text_behind(const Memory& memory, std::uint64_t address,
                                       std::size_t limit) {
  const auto pointer = memory.word(address);
  if (!pointer || *pointer < 65536) return std::nullopt;
  auto text = memory.text(*pointer, limit);
  if (!text || text->empty()) return std::nullopt;
  return text;
}

// PyTypeObject: tp_name follows the 24 bytes of PyVarObject (Include/cpython/object.h); only
// free-threaded builds have longer heads.
std::optional<std::string> name_of_type(const Memory& memory, std::uint64_t slot) {
  const auto type = memory.word(slot);
  if (!type || *type < 65536) return std::nullopt;
  auto name = text_behind(memory, *type + 24, kMaxErrorName);
  if (!name) return std::nullopt;
  for (const char c : *name) {
    if (c < '!' || c > '~') return std::nullopt;
  }
  return name;
}

}  // namespace

std::optional<std::string> python_error_message(const Memory& memory, std::string_view type,
                                                std::uint64_t object) {
  if (type == "N8pybind1117error_already_setE") {
    // pybind11 2.10 and later (pytypes.h): behind the vtable a shared_ptr to {type, value, trace,
    // std::string of the message}; before that the three objects behind std::runtime_error.
    const auto details = memory.word(object + 8);
    if (!details || *details < 65536) return std::nullopt;
    auto message = text_behind(memory, *details + 24, kMaxErrorText);
    return message ? message : name_of_type(memory, *details);
  }
  if (type == "12python_error" || type == "N5torch12python_errorE") {
    // torch/csrc/Exceptions.h: vtable, type, value, traceback, std::string message.
    auto message = text_behind(memory, object + 32, kMaxErrorText);
    return message ? message : name_of_type(memory, object + 8);
  }
  return std::nullopt;
}

}  // namespace pm::elfcore
