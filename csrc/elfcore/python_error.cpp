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

// Whether there is a type of Python: the type of its type is its own.
bool is_type(const Memory& memory, std::uint64_t address) {
  const auto meta = address < 65536 ? std::nullopt : memory.word(address + 8);
  return meta && *meta >= 65536 && memory.word(*meta + 8) == *meta;
}

// By the mangled name, or where that is not known, by the Python type that is kept first.
bool is_pybind11_error(const Memory& memory, std::string_view type, std::uint64_t details) {
  return type.empty() ? is_type(memory, memory.word(details).value_or(0))
                      : type == "N8pybind1117error_already_setE";
}

bool is_torch_error(const Memory& memory, std::string_view type, std::uint64_t object) {
  return type.empty() ? is_type(memory, memory.word(object + 8).value_or(0))
                      : type == "12python_error" || type == "N5torch12python_errorE";
}

}  // namespace

std::optional<std::string> python_error_message(const Memory& memory, std::string_view type,
                                                std::uint64_t object) {
  const auto details = memory.word(object + 8);
  if (!details || *details < 65536) return std::nullopt;
  if (is_pybind11_error(memory, type, *details)) {
    // pybind11 2.10 and later (pytypes.h): behind the vtable a shared_ptr to {type, value, trace,
    // std::string of the message}; before that the three objects behind std::runtime_error.
    auto message = text_behind(memory, *details + 24, kMaxErrorText);
    return message ? message : name_of_type(memory, *details);
  }
  if (is_torch_error(memory, type, object)) {
    // torch/csrc/Exceptions.h: vtable, type, value, traceback, std::string message.
    auto message = text_behind(memory, object + 32, kMaxErrorText);
    return message ? message : name_of_type(memory, object + 8);
  }
  return std::nullopt;
}

}  // namespace pm::elfcore
