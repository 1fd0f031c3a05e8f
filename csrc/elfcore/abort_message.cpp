#include "elfcore/abort_message.h"

#include <algorithm>
#include <vector>

namespace pm::elfcore {
namespace {

constexpr std::uint32_t kMaxBuffer = 1 << 20;
constexpr std::size_t kMaxMessage = 1 << 16;
constexpr std::size_t kMinMessage = 8;
constexpr std::uint64_t kMaxVariables = 1 << 18;  // of libc: some 60 KiB

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

bool is_glibc_file(const Module& module) {
  const std::string_view name = module.name();
  return name.starts_with("libc.so") || name.starts_with("libc-2.");
}

// Whether a page of memory that is no file's begins as glibc's buffer does: its own size in whole
// pages, then one or more lines of text.
std::optional<std::string> message_in_page(const Memory& memory, std::uint64_t page) {
  const Core& core = memory.core();
  const Segment* const segment = core.segment_at(page);
  if (!segment || !(segment->flags & kWrite) || core.file_at(page)) return std::nullopt;
  const auto size = memory.get<std::uint32_t>(page);
  if (!size || *size == 0 || *size % core.page_size() != 0 || *size > kMaxBuffer) {
    return std::nullopt;
  }
  const auto text = memory.text(page + 4, std::min<std::size_t>(*size - 4, kMaxMessage));
  if (!text || text->size() < kMinMessage || text->back() != '\n') return std::nullopt;
  const bool readable = std::all_of(text->begin(), text->end(), [](char c) {
    return static_cast<unsigned char>(c) >= ' ' || c == '\n' || c == '\t';
  });
  return readable ? message_at(memory, page) : std::nullopt;
}

// The same without symbols, for cores of other machines: `__abort_msg` is the one pointer in libc's
// variables (of a static program, in its own) to such a page, which libc maps for nothing else.
std::optional<std::string> message_of_unknown_build(const Memory& memory, const Module& libc) {
  const Core& core = memory.core();
  for (const FileMapping& mapping : libc.mappings) {
    const Segment* const segment = core.segment_at(mapping.start);
    if (!segment || !(segment->flags & kWrite)) continue;
    std::uint64_t end = mapping.end;
    const Segment* const zeros = core.segment_at(end);  // .bss
    if (zeros && zeros->start == end && !core.file_at(end)) end = zeros->end();
    end = std::min(end, mapping.start + kMaxVariables);
    for (std::uint64_t at = mapping.start; at + 8 <= end; at += 8) {
      const std::uint64_t page = memory.word(at).value_or(0);
      if (page == 0 || page % core.page_size() != 0) continue;
      if (auto text = message_in_page(memory, page)) return text;
    }
  }
  return std::nullopt;
}

}  // namespace

bool may_have_aborted(const Memory& memory, const ThreadState* thread) {
  constexpr std::int32_t kAbort = 6, kSegv = 11, kKernel = 0x80;
  if (!thread || thread->signal == kAbort) return thread != nullptr;
  const Core& core = memory.core();
  if (thread != core.crashed_thread() || thread->signal != kSegv) return false;
  const Module* const module = memory.modules().at(thread->registers.pc());
  const bool refused = core.signal() && core.signal()->code == kKernel;
  return refused && core.process() && core.process()->pid == 1 && module && is_glibc_file(*module);
}

std::optional<std::string> read_abort_message(const Memory& memory) {
  const Module* const executable = memory.modules().executable();
  std::vector<const Module*> nameless;  // not here, or a static program without symbols
  for (const Module& module : memory.modules().all()) {
    if (!is_glibc_file(module) && &module != executable) continue;
    const bool is_program = &module == executable && !is_glibc_file(module);
    if (is_program && module.image && module.image->program_header(PT_INTERP)) continue;
    const auto symbol = module.image ? module.image->symbol("__abort_msg") : std::nullopt;
    if (!symbol) {
      nameless.push_back(&module);
      continue;
    }
    const auto pointer = memory.word(module.bias + symbol->value);
    if (!pointer || *pointer == 0) continue;
    if (auto text = message_at(memory, *pointer)) return text;
  }
  if (!may_have_aborted(memory, memory.core().crashed_thread())) return std::nullopt;
  for (const Module* const module : nameless) {
    if (auto text = message_of_unknown_build(memory, *module)) return text;
  }
  return std::nullopt;
}

}  // namespace pm::elfcore
