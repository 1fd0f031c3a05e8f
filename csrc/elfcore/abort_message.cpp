#include "elfcore/abort_message.h"

#include <algorithm>

namespace pm::elfcore {
namespace {

constexpr std::uint32_t kMaxBuffer = 1 << 20;
constexpr std::size_t kMaxMessage = 1 << 16;

// struct abort_msg_s { unsigned int size; char msg[]; }, glibc's include/stdlib.h; `size` is that
// of the whole buffer, rounded up to pages.
std::optional<std::string> message_at(const Memory& memory, std::uint64_t pointer) {
  const auto size = memory.get<std::uint32_t>(pointer);
  if (!size || *size == 0 || *size > kMaxBuffer) return std::nullopt;
  auto text = memory.text(pointer + 4, std::min<std::size_t>(*size, kMaxMessage));
  if (!text) return std::nullopt;
  const auto is_space = [](char c) { return c == '\n' || c == '\r' || c == ' ' || c == '\t'; };
  while (!text->empty() && is_space(text->back())) text->pop_back();
  if (text->empty()) return std::nullopt;
  return text;
}

}  // namespace

std::optional<std::string> read_abort_message(const Memory& memory) {
  const Module* const executable = memory.modules().executable();
  for (const Module& module : memory.modules().all()) {
    const std::string_view name = module.name();
    const bool is_static =
        &module == executable && module.image && !module.image->program_header(PT_INTERP);
    if (!module.image || !(name.starts_with("libc.so") || name.starts_with("libc-2.") || is_static))
      continue;
    const auto symbol = module.image->symbol("__abort_msg");
    if (!symbol) continue;
    const auto pointer = memory.word(module.bias + symbol->value);
    if (!pointer || *pointer == 0) continue;
    if (auto text = message_at(memory, *pointer)) return text;
  }
  return std::nullopt;
}

}  // namespace pm::elfcore
