#include "unwind/panic_text.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <string_view>

namespace pm::unwind {
namespace {

using elfcore::Memory;

constexpr std::size_t kInnermost = 64;   // frames in which a run-time's end is looked for
constexpr std::size_t kLongest = 16384;  // bytes of a message
constexpr std::uint64_t kSearched = 64 << 10;
constexpr std::int32_t kAbort = 6;  // SIGABRT

std::string_view name_of(const Stack& stack, const Symbolizer& names, std::size_t at) {
  const Symbol* const symbol = names.find(stack.frames[at].lookup());
  return symbol ? std::string_view(symbol->name) : std::string_view();
}

bool has(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}

// Words that somebody was meant to read: no control characters but line ends and tabs, whole
// sequences of UTF-8.
bool is_text(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x80) {
      if ((byte < 32 && byte != '\n' && byte != '\t') || byte == 127) return false;
      continue;
    }
    const std::size_t more = byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : byte >= 0xc2 ? 1 : 0;
    if (more == 0 || byte > 0xf4 || i + more >= text.size()) return false;
    for (std::size_t k = 1; k <= more; ++k) {
      if ((static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80) return false;
    }
    i += more;
  }
  return !text.empty();
}

std::optional<std::string> counted_text(const Memory& memory, std::uint64_t pointer,
                                        std::uint64_t length) {
  if (pointer < 65536 || length == 0 || length > kLongest) return std::nullopt;
  std::string text(length, '\0');
  if (!memory.read(pointer, {reinterpret_cast<std::uint8_t*>(text.data()), text.size()}) ||
      !is_text(text)) {
    return std::nullopt;
  }
  return text;
}

// A message without arguments is a constant of the program, handed on as `&mut dyn PanicPayload`:
// a place on the stack that holds pointer and length (StaticStrPayload; Payload<&str>), and a table
// of functions that begins with a destructor, this size and this alignment.
std::optional<std::string> rust_constant(const Memory& memory, std::uint64_t from,
                                         std::uint64_t to) {
  std::optional<std::string> found;
  for (std::uint64_t at = from; at + 16 <= to; at += 8) {
    const auto payload = memory.word(at), table = memory.word(at + 8);
    if (!payload || !table || *payload <= at || *payload >= to || *table < 65536) continue;
    if (memory.word(*table + 8) != 16 || memory.word(*table + 16) != 8) continue;
    const auto pointer = memory.word(*payload), length = memory.word(*payload + 8);
    if (!pointer || !length) continue;
    auto text = counted_text(memory, *pointer, *length);
    if (!text || text == found) continue;
    if (found) return std::nullopt;  // two that differ: nobody knows which
    found = std::move(text);
  }
  return found;
}

// The frames of std::panicking keep the message that they made of the arguments, a String:
// capacity, pointer, length (library/std/src/panicking.rs, FormatStringPayload; library/alloc
// RawVec).
std::optional<std::string> rust_message(const Memory& memory, const Stack& stack,
                                        const Symbolizer& names) {
  const std::size_t count = std::min(stack.frames.size(), kInnermost);
  std::size_t first = count, last = count;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view name = name_of(stack, names, i);
    if (!has(name, "panicking::") && !has(name, "rust_begin_unwind")) continue;
    if (first == count) first = i;
    last = i;
    if (has(name, "rust_begin_unwind") || has(name, "begin_panic_handler")) break;
  }
  if (first == count || last + 1 >= stack.frames.size()) return std::nullopt;
  const std::uint64_t from = stack.frames[first].sp, to = stack.frames[last + 1].sp;
  if (from % 8 != 0 || to <= from || to - from > kSearched) return std::nullopt;
  auto found = rust_constant(memory, from, to);
  if (found) return found;
  for (std::uint64_t at = from; at + 24 <= to; at += 8) {
    std::array<std::uint64_t, 3> words;
    if (!memory.read(at, {reinterpret_cast<std::uint8_t*>(words.data()), sizeof words})) break;
    const auto [capacity, pointer, length] = words;
    if (length < 4 || length > capacity || capacity > (1 << 20)) continue;
    auto text = counted_text(memory, pointer, length);
    if (!text || text == found) continue;
    if (found) return std::nullopt;  // two that differ: nobody knows which
    found = std::move(text);
  }
  return found;
}

std::optional<std::uint64_t> address_of(const Memory& memory, std::string_view symbol) {
  const elfcore::Module* const program = memory.modules().executable();
  if (!program || !program->image) return std::nullopt;
  const auto found = program->image->symbol(symbol);
  if (!found) return std::nullopt;
  return program->bias + found->value;
}

// runtime.g and runtime.m (runtime/runtime2.go): a g begins with the ends of its stack and two
// guards, then its innermost _panic; m follows behind _defer. runtime._panic: argp, then the value
// as {type, data}. fatalpanic() has replaced errors and Stringers by their text (preprintpanics).
constexpr std::uint64_t kPanicOfG = 32, kMOfG = 48, kWordsOfM = 48;
constexpr std::uint64_t kKindOfType = 23;
constexpr std::uint8_t kKindMask = 31, kStringKind = 24;

std::optional<std::string> value_of_panic(const Memory& memory, std::uint64_t panic) {
  const auto type = memory.word(panic + 8), data = memory.word(panic + 16);
  if (!type || !data || *type < 4096) return std::nullopt;
  const auto kind = memory.get<std::uint8_t>(*type + kKindOfType);
  if (!kind || (*kind & kKindMask) != kStringKind) return std::nullopt;
  const auto pointer = memory.word(*data), length = memory.word(*data + 8);
  if (!pointer || !length) return std::nullopt;
  return counted_text(memory, *pointer, *length);
}

// The goroutine on whose stack a frame stands, if this is one, and what it panicked with.
std::optional<std::string> panic_of_g(const Memory& memory, std::uint64_t g, std::uint64_t frame) {
  const auto low = memory.word(g), high = memory.word(g + 8), panic = memory.word(g + kPanicOfG);
  if (!low || !high || !panic) return std::nullopt;
  const auto inside = [&](std::uint64_t at) { return at >= *low && at < *high; };
  if (!inside(frame) || !inside(*panic)) return std::nullopt;
  return value_of_panic(memory, *panic);
}

std::optional<std::string> go_panic(const Memory& memory, const elfcore::ThreadState& thread,
                                    std::uint64_t frame) {
  if (thread.registers.machine != elfcore::Machine::x86_64) return std::nullopt;
  const auto g = memory.word(thread.registers.fs_base() - 8);
  if (!g || *g < 4096) return std::nullopt;
  if (auto text = panic_of_g(memory, *g, frame)) return text;
  const auto m = memory.word(*g + kMOfG);  // on the scheduler's stack: one of m's is current
  if (!m || *m < 4096) return std::nullopt;
  for (std::uint64_t i = 0; i < kWordsOfM; ++i) {
    const auto other = memory.word(*m + 8 * i);
    if (!other || *other < 65536) continue;
    if (auto text = panic_of_g(memory, *other, frame)) return text;
  }
  return std::nullopt;
}

// runtime.printBacklog: what print() wrote last, kept for readers of cores (runtime/print.go).
std::optional<std::string> go_fatal_error(const Memory& memory) {
  constexpr std::size_t kBacklog = 512;
  constexpr std::string_view kHead = "fatal error: ";
  const auto address = address_of(memory, "runtime.printBacklog");
  std::string text(kBacklog, '\0');
  if (!address ||
      !memory.read(*address, {reinterpret_cast<std::uint8_t*>(text.data()), text.size()})) {
    return std::nullopt;
  }
  const std::size_t at = text.rfind(kHead);
  if (at == std::string::npos) return std::nullopt;
  const std::size_t end = text.find_first_of(std::string_view("\n\0", 2), at);
  std::string found = text.substr(at, end == std::string::npos ? end : end - at);
  return found.size() > kHead.size() && is_text(found) ? std::optional(found) : std::nullopt;
}

std::string utf8_of(const std::vector<std::uint16_t>& units) {
  std::string text;
  for (std::size_t i = 0; i < units.size(); ++i) {
    std::uint32_t code = units[i];
    if (code >= 0xd800 && code < 0xdc00 && i + 1 < units.size() &&
        (units[i + 1] & 0xfc00) == 0xdc00) {
      code = 0x10000 + ((code - 0xd800) << 10) + (units[++i] - 0xdc00u);
    } else if (code >= 0xd800 && code < 0xe000) {
      code = '?';
    }
    if (code < 0x80) {
      text += static_cast<char>(code);
    } else if (code < 0x800) {
      text += {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
    } else if (code < 0x10000) {
      text += {static_cast<char>(0xe0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 63)),
               static_cast<char>(0x80 | (code & 63))};
    } else {
      text += {static_cast<char>(0xf0 | code >> 18), static_cast<char>(0x80 | (code >> 12 & 63)),
               static_cast<char>(0x80 | (code >> 6 & 63)), static_cast<char>(0x80 | (code & 63))};
    }
  }
  return text;
}

// What a stack pointer has around it: also what functions that have returned left below.
Bytes stack_around(const Memory& memory, std::uint64_t sp) {
  const elfcore::Segment* const segment = memory.core().segment_at(sp);
  if (!segment || segment->start > sp) return {};
  const std::uint64_t from = sp < kSearched ? 0 : (sp - kSearched) & ~std::uint64_t{7};
  const std::uint64_t start = std::max(from, segment->start);
  return clip(memory.core().dumped_at(start), 0, sp + kSearched - start);
}

// DefaultCatchHandler() prints an exception as its ToString() gives it, "TYPE: MESSAGE\n   at
// METHOD…" in UTF-16 (vm/excep.cpp), from buffers on the stack of the thread that threw: below the
// frames that are left, as the functions that used them have returned.
std::optional<std::string> dotnet_exception(const Memory& memory, std::uint64_t sp) {
  constexpr std::u16string_view kMark = u"\n   at ";
  const Bytes stack = stack_around(memory, sp);
  std::vector<std::uint16_t> units(stack.size() / 2);
  std::memcpy(units.data(), stack.data(), units.size() * 2);
  const auto is_end = [](std::uint16_t unit) {
    return (unit < 32 && unit != '\n' && unit != '\t' && unit != '\r') || unit == 0xffff;
  };
  std::string best;
  auto at = units.begin();
  while ((at = std::search(at, units.end(), kMark.begin(), kMark.end())) != units.end()) {
    auto first = at;
    while (first != units.begin() && !is_end(first[-1])) --first;
    const auto last = std::find_if(at, units.end(), is_end);
    const auto most = static_cast<std::ptrdiff_t>(kLongest);
    std::string text = utf8_of({first, std::min(last, first + std::min(most, last - first))});
    at = last;
    // "Namespace.Type: message" stands in front of the first method.
    const std::string_view head = std::string_view(text).substr(0, text.find('\n'));
    const std::size_t colon = head.find(':');
    const bool is_type = !head.empty() && !has(head.substr(0, colon), " ") && head[0] > 64;
    if (is_type && text.size() > best.size()) best = std::move(text);
  }
  return best.empty() ? std::nullopt : std::optional(best);
}

// A one-byte string of V8: the tagged word of its map, its hash, its length, the characters
// (src/objects/string.h). Isolate::CreateMessageOrAbort() makes one of the exception.
std::optional<std::string> v8_string(const Memory& memory, std::uint64_t at, Bytes rest) {
  const auto map = memory.word(at - 16);
  const auto length = memory.get<std::uint32_t>(at - 4);
  if (!map || (*map & 3) != 1 || !length || *length > std::min(rest.size(), kLongest)) {
    return std::nullopt;
  }
  const std::string_view text(reinterpret_cast<const char*>(rest.data()), *length);
  return is_text(text) ? std::optional(std::string(text)) : std::nullopt;
}

// The one in the parts of the heap that the thread's stack points to.
std::optional<std::string> v8_message(const Memory& memory, Bytes stack) {
  constexpr std::string_view kHead = "Uncaught ";
  constexpr std::size_t kMost = 256 << 20, kMostPlaces = 4096;
  std::set<const elfcore::Segment*> heap;
  for (std::size_t at = 0; at + 8 <= stack.size(); at += 8) {
    const std::uint64_t word = *load<std::uint64_t>(stack, at);
    const elfcore::Segment* const segment =
        (word & 3) == 1 ? memory.core().segment_at(word) : nullptr;
    if (segment && (segment->flags & PF_W)) heap.insert(segment);
  }
  std::optional<std::string> found;
  std::size_t left = kMost, places = 0;
  for (const elfcore::Segment* const segment : heap) {
    const Bytes bytes = clip(memory.core().dumped_at(segment->start), 0, left);
    left -= bytes.size();
    const std::string_view view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    for (std::size_t at = view.find(kHead); at != view.npos; at = view.find(kHead, at + 1)) {
      if (++places > kMostPlaces) return std::nullopt;
      if (at < 16) continue;
      auto text = v8_string(memory, segment->start + at, clip(bytes, at, kLongest));
      if (!text || text->size() == kHead.size() || text == found) continue;
      if (found) return std::nullopt;  // two that differ: nobody knows which
      found = std::move(text);
    }
  }
  return found;
}

// Lines "FUNCTION (FILE:LINE:COLUMN)", which were printed last: libc prints to standard error by
// way of a buffer on the stack.
std::string v8_stack(Bytes stack) {
  const std::string_view all(reinterpret_cast<const char*>(stack.data()), stack.size());
  std::string_view best;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find('\0', at), all.size());
    const std::string_view run = all.substr(at, end - at);
    at = end + 1;
    if (run.size() <= best.size() || run.size() > kLongest || !is_text(run)) continue;
    const std::string_view line = run.substr(0, run.find('\n'));
    const std::size_t open = line.find(" (");
    if (line.ends_with(')') && open != line.npos && has(line.substr(open), ":")) best = run;
  }
  return std::string(best);
}

std::optional<std::string> v8_exception(const Memory& memory, std::uint64_t sp) {
  const Bytes stack = stack_around(memory, sp);
  auto text = v8_message(memory, stack);
  if (!text) return std::nullopt;
  const std::string frames = v8_stack(stack);
  return frames.empty() ? text : std::optional(*text + '\n' + frames);
}

// Since .NET 7 what it compiles lies in memory of this name; a program in a single file has its
// run-time inside, without symbols.
bool is_dotnet(const elfcore::Modules& modules) {
  return std::any_of(modules.all().begin(), modules.all().end(), [](const elfcore::Module& module) {
    return module.path.starts_with("/memfd:doublemapper");
  });
}

}  // namespace

std::optional<PanicText> find_panic_text(const Memory& memory, const Stack& stack,
                                         const Symbolizer& names) {
  const elfcore::ThreadState* const thread = memory.core().crashed_thread();
  if (!thread) return std::nullopt;
  const std::size_t count = std::min(stack.frames.size(), kInnermost);
  const auto found = [](const char* language, std::optional<std::string> text) {
    return text ? std::optional(PanicText{language, std::move(*text)}) : std::nullopt;
  };
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view name = name_of(stack, names, i);
    if (name == "runtime.gopanic") {
      return found("Go", go_panic(memory, *thread, stack.frames[i].sp));
    }
    if (name == "runtime.throw" || name == "runtime.fatal" || name == "runtime.fatalthrow") {
      if (auto text = go_fatal_error(memory)) return found("Go", std::move(text));
    }
    if (has(name, "rust_panic") || has(name, "std::panicking::")) {
      return found("Rust", rust_message(memory, stack, names));
    }
    if (name.starts_with("v8::internal::Isolate::CreateMessageOrAbort")) {
      return found("JavaScript", v8_exception(memory, thread->registers.sp()));
    }
    if (name.starts_with("UnwindManagedExceptionPass1") ||
        name.starts_with("DispatchManagedException")) {
      return found(".NET", dotnet_exception(memory, thread->registers.sp()));
    }
  }
  const auto signal = memory.core().signal();
  if (signal && signal->number == kAbort && is_dotnet(memory.modules())) {
    return found(".NET", dotnet_exception(memory, thread->registers.sp()));
  }
  return std::nullopt;
}

}  // namespace pm::unwind
