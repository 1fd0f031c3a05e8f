#include "unwind/panic_text.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <vector>

#include "elfcore/abort_message.h"
#include "unwind/managed_words.h"

namespace pm::unwind {
namespace {

using elfcore::Memory;

constexpr std::size_t kInnermost = 64;  // frames in which a run-time's end is looked for
constexpr std::int32_t kTrap = 5;       // SIGTRAP, by which V8 ends the process

std::string_view name_of(const Stack& stack, const Symbolizer& names, std::size_t at) {
  const Symbol* const symbol = names.find(stack.frames[at].lookup());
  return symbol ? std::string_view(symbol->name) : std::string_view();
}

bool has(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
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

// core::panic::Location: the file's name, line and column. Of its own library Rust tells no place.
std::optional<std::string> rust_place(const Memory& memory, std::uint64_t location) {
  const auto name = memory.word(location), length = memory.word(location + 8);
  const auto line = memory.get<std::uint32_t>(location + 16);
  const auto column = memory.get<std::uint32_t>(location + 20);
  if (location < 65536 || location % 8 != 0 || !name || !length || !line || !column ||
      *name < 65536 || *length == 0 || *length > 4096 || *line == 0 || *line >> 24 != 0 ||
      *column == 0 || *column >> 16 != 0) {
    return std::nullopt;
  }
  const auto file = counted_text(memory, *name, *length);  // in the program's own file alone
  if (!file && !memory.modules().at(*name)) return std::nullopt;
  if (file && file->starts_with("/rustc/")) return "";
  const std::string place = std::to_string(*line) + ":" + std::to_string(*column);
  return " (at " + (file ? *file + ":" : "line ") + place + ")";
}

// What rust_panic_with_hook() is given: a `&mut dyn PanicPayload`, a place on the stack and a table
// of functions (destructor, size, alignment), and a `&Location`. The place holds the message: a
// constant of the program (StaticStrPayload: pointer, length), or what was made of its arguments
// (FormatStringPayload, and std::panic::panic_any: a String, which is capacity, pointer, length).
std::optional<std::string> rust_payload(const Memory& memory, std::uint64_t from,
                                        std::uint64_t to) {
  for (std::uint64_t at = from; at + 24 <= to; at += 8) {
    const auto payload = memory.word(at), table = memory.word(at + 8);
    if (!payload || !table || *payload <= at || *payload >= to || *table < 65536) continue;
    const std::uint64_t size = memory.word(*table + 8).value_or(0);
    if ((size != 16 && size != 24 && size != 32) || memory.word(*table + 16) != 8) continue;
    const auto place = rust_place(memory, memory.word(at + 16).value_or(0));
    if (!place) continue;
    // Behind its String FormatStringPayload has the address of what it was made of, on the stack;
    // what panic_any() was given may have anything there.
    const std::uint64_t behind = memory.word(*payload + 24).value_or(0);
    if (size == 32 && memory.core().segment_at(behind) != memory.core().segment_at(at)) continue;
    const std::uint64_t text = *payload + (size == 16 ? 0 : 8);
    const auto pointer = memory.word(text), length = memory.word(text + 8);
    if (!pointer || !length) continue;
    if (auto said = counted_text(memory, *pointer, *length)) return *said + *place;
    const bool is_constant = size == 16 && memory.word(*table) == 0 && *length <= kLongest;
    if (is_constant && memory.modules().at(*pointer) && !memory.word(*pointer)) {
      return "a constant text, which is in the program's file alone" + *place;
    }
  }
  return std::nullopt;
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
  auto found = rust_payload(memory, from, to);
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

constexpr std::uint64_t kHook = 8192;  // from abort() out to the function that panicked

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

// A number of one of reflect's kinds: Bool is 1, Int to Int64 2 to 6, Uint to Uintptr 7 to 12.
std::optional<std::string> number_of_go(const Memory& memory, std::uint64_t at, std::uint8_t kind) {
  const auto told = [](auto value) {
    return value ? std::optional(std::to_string(*value)) : std::nullopt;
  };
  switch (kind) {
    case 3:
      return told(memory.get<std::int8_t>(at));
    case 4:
      return told(memory.get<std::int16_t>(at));
    case 5:
      return told(memory.get<std::int32_t>(at));
    case 2:
    case 6:
      return told(memory.get<std::int64_t>(at));
    case 1:
    case 8:
      return told(memory.get<std::uint8_t>(at));
    case 9:
      return told(memory.get<std::uint16_t>(at));
    case 10:
      return told(memory.get<std::uint32_t>(at));
    case 7:
    case 11:
    case 12:
      return told(memory.get<std::uint64_t>(at));
    case 13:
      return told(memory.get<float>(at));
    case 14:
      return told(memory.get<double>(at));
    default:
      return std::nullopt;
  }
}

std::optional<std::string> value_of_panic(const Memory& memory, std::uint64_t panic) {
  const auto type = memory.word(panic + 8), data = memory.word(panic + 16);
  if (panic == 0 || !type || !data || *type < 4096) return std::nullopt;
  // Without the program's file nobody knows the type: most are texts by then.
  const auto kind = memory.get<std::uint8_t>(*type + kKindOfType).value_or(kStringKind);
  const auto is = static_cast<std::uint8_t>(kind & kKindMask);
  if (is != kStringKind) return number_of_go(memory, *data, is);
  const auto pointer = memory.word(*data), length = memory.word(*data + 8);
  if (!pointer || !length) return std::nullopt;
  return counted_text(memory, *pointer, *length);
}

// The innermost panic of a goroutine, if this is one: it lies on its stack. Else 0.
std::uint64_t panic_of_g(const Memory& memory, std::uint64_t g) {
  const auto low = memory.word(g), high = memory.word(g + 8), panic = memory.word(g + kPanicOfG);
  return low && high && panic && *panic >= *low && *panic < *high ? *panic : 0;
}

// The thread's m, which names its g0, which names it: 0 in programs that are not Go's.
std::uint64_t m_of(const Memory& memory, const elfcore::ThreadState& thread) {
  constexpr std::size_t kX28 = 28;  // aarch64's Go keeps its g there
  const elfcore::Registers& held = thread.registers;
  const bool x86 = held.machine == elfcore::Machine::x86_64;
  const std::uint64_t g = x86 ? memory.word(held.fs_base() - 8).value_or(0) : held.values[kX28];
  const std::uint64_t m = g < 4096 ? 0 : memory.word(g + kMOfG).value_or(0);
  const std::uint64_t g0 = m < 4096 ? 0 : memory.word(m).value_or(0);
  return g0 >= 4096 && memory.word(g0 + kMOfG) == m ? m : 0;
}

std::uint64_t go_panic(const Memory& memory, std::uint64_t m) {
  for (std::uint64_t i = 0; m != 0 && i < kWordsOfM; ++i) {  // one of them is the current one
    const std::uint64_t g = memory.word(m + 8 * i).value_or(0);
    if (g < 65536 || memory.word(g + kMOfG) != m) continue;
    if (const std::uint64_t panic = panic_of_g(memory, g)) return panic;
  }
  return 0;
}

// runtime.printBacklog: what print() wrote last, kept for readers of cores (runtime/print.go).
std::optional<std::string> last_fatal_error(std::string_view text) {
  constexpr std::string_view kHead = "fatal error: ";
  const std::size_t at = text.rfind(kHead);
  if (at == std::string::npos) return std::nullopt;
  const std::string_view line = text.substr(at, kLongest);
  const std::string found(line.substr(0, line.find_first_of(std::string_view("\n\0", 2))));
  return found.size() > kHead.size() && is_text(found) ? std::optional(found) : std::nullopt;
}

// Without symbols it is looked for among the program's variables that are 0 at its start.
std::optional<std::string> go_fatal_error(const Memory& memory) {
  constexpr std::size_t kBacklog = 512, kVariables = 1 << 20;
  const elfcore::Module* const program = memory.modules().executable();
  const auto text_at = [&](std::uint64_t address, std::size_t size) {
    const Bytes bytes = clip(memory.at(address), 0, size);
    return last_fatal_error({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  };
  if (const auto address = address_of(memory, "runtime.printBacklog")) {
    return text_at(*address, kBacklog);
  }
  if (!program || program->mappings.empty()) return std::nullopt;
  const std::uint64_t zeros = program->mappings.back().end;
  return memory.core().file_at(zeros) ? std::nullopt : text_at(zeros, kVariables);
}

// Since 1.84 the words of a panic are put together on the stack (library/std/src/panicking.rs,
// default_hook), a little below the frames that abort: they are still there.
std::optional<std::string> rust_last_words(const Memory& memory, std::uint64_t sp) {
  constexpr std::uint64_t kAround = 4096;
  constexpr std::size_t kBuffer = 512;  // longer words end there
  constexpr std::string_view kThread = "\nthread '", kPanicked = " panicked at ";
  const elfcore::Segment* const segment = memory.core().segment_at(sp);
  if (!segment) return std::nullopt;
  const std::uint64_t low = std::max(sp - std::min(sp, kAround), segment->start);
  const Bytes bytes = clip(memory.at(low), 0, sp - low + kAround);
  const std::string_view stack(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (std::size_t at = stack.find(kThread); at != stack.npos; at = stack.find(kThread, at + 1)) {
    std::string_view text = stack.substr(at, kBuffer);
    const bool cut = text.size() == kBuffer && text.find('\0') == text.npos;
    text = text.substr(1, text.find('\0') - 1);
    const std::size_t place = text.find(kPanicked), end = text.find(":\n", place);
    if (end == text.npos || !is_text(text)) continue;
    std::string_view said = text.substr(end + 2);
    while (said.ends_with('\n')) said.remove_suffix(1);
    const std::size_t from = place + kPanicked.size();
    const std::string_view where = text.substr(from, end - from);
    if (said.empty()) continue;
    const std::string words = std::string(said) + (cut ? "…" : "");
    if (where.starts_with("/rustc/")) return words;  // a check of its own library
    return words + " (at " + std::string(where) + ")";
  }
  return std::nullopt;
}

// What a boxed panic says: a String (capacity, pointer, length) or a &str; the table of functions
// tells its size.
std::optional<std::string> boxed_text(const Memory& memory, std::uint64_t data,
                                      std::uint64_t table) {
  const std::uint64_t size = memory.word(table + 8).value_or(0);
  if (data < 65536 || (size != 16 && size != 24) || memory.word(table + 16) != 8) {
    return std::nullopt;
  }
  const std::uint64_t at = data + (size == 24 ? 8 : 0);
  const auto pointer = memory.word(at), length = memory.word(at + 8);
  return pointer && length ? counted_text(memory, *pointer, *length) : std::nullopt;
}

// The panics that were on their way when another one ended the process: what is unwound lies on the
// heap (library/panic_unwind/src/gcc.rs: an _Unwind_Exception of Rust's class with a function that
// cleans up, a canary, the boxed panic). free() overwrites the class.
std::string rust_under_way(const Memory& memory) {
  constexpr std::array<std::uint8_t, 8> kClass{'M', 'O', 'Z', 0, 'R', 'U', 'S', 'T'};
  constexpr std::uint64_t kCleanUp = 8, kCanary = 32, kBox = 40;
  constexpr std::size_t kMost = 3, kLooked = 64 << 20;
  std::string found;
  std::size_t left = kLooked, count = 0;
  for (const elfcore::Segment& segment : memory.core().segments()) {
    if (!(segment.flags & elfcore::kWrite) || left == 0 || count == kMost) continue;
    const Bytes bytes = clip(memory.core().dumped_at(segment.start), 0, left);
    left -= bytes.size();
    for (std::size_t at = 0; at < bytes.size() && count < kMost; ++at) {
      const Bytes rest = clip(bytes, at, bytes.size());
      const void* const hit = memmem(rest.data(), rest.size(), kClass.data(), kClass.size());
      if (!hit) break;
      at += static_cast<std::size_t>(static_cast<const std::uint8_t*>(hit) - rest.data());
      const std::uint64_t header = segment.start + at;
      const auto word = [&](std::uint64_t offset) {
        return memory.word(header + offset).value_or(0);
      };
      if (header % 16 != 0 || !memory.modules().at(word(kCleanUp)) ||
          !memory.modules().at(word(kCanary))) {
        continue;
      }
      const auto text = boxed_text(memory, word(kBox), word(kBox + 8));
      if (!text) continue;
      found += (count++ == 0 ? "" : "; ") + *text;
    }
  }
  return found;
}

// What ended the process, behind what was under way then.
std::optional<std::string> with_under_way(const Memory& memory, std::optional<std::string> text) {
  if (!text) return text;
  const std::string others = rust_under_way(memory);
  return others.empty() || text->starts_with(others) ? text : others + "; then " + *text;
}

// The constant that a register was given among the last instructions before a call: lea of an
// address beside the code, or mov of 32 bits. 0 is none.
std::uint64_t constant_before(const Memory& memory, std::uint64_t call, unsigned number) {
  constexpr std::size_t kLooked = 48, kLea = 7, kMov = 5;
  std::array<std::uint8_t, kLooked> code{};
  if (call < kLooked || !memory.read(call - kLooked, code)) return 0;
  for (std::size_t at = kLooked - kMov; at-- > 0;) {
    const std::uint64_t next = call - kLooked + at + kLea;
    const bool is_lea = at + kLea <= kLooked && code[at] == 0x48 && code[at + 1] == 0x8d &&
                        code[at + 2] == (0x05 | number << 3);
    if (is_lea)
      return next + static_cast<std::uint64_t>(std::int64_t{*load<std::int32_t>(code, at + 3)});
    if (code[at] == (0xb8 | number)) return *load<std::uint32_t>(code, at + 1);
  }
  return 0;
}

// What a failed check was given to print: musl and libstdc++ keep nothing of it. Told as glibc
// does.
std::optional<std::string> assertion(const Memory& memory, std::uint64_t call, bool is_of_cxx) {
  constexpr unsigned kRcx = 1, kRdx = 2, kRsi = 6, kRdi = 7;
  const auto text_in = [&](unsigned number) {
    const std::uint64_t address = constant_before(memory, call, number);
    auto text = address < 4096 ? std::nullopt : memory.text(address, kLongest);
    return text && is_text(*text) ? std::move(text) : std::nullopt;
  };
  // __assert_fail(condition, file, line, function); __glibcxx_assert_fail(file, line, function,
  // condition).
  const auto file = text_in(is_of_cxx ? kRdi : kRsi), function = text_in(is_of_cxx ? kRdx : kRcx);
  const auto condition = text_in(is_of_cxx ? kRcx : kRdi);
  const std::uint64_t line = constant_before(memory, call, is_of_cxx ? kRsi : kRdx);
  if (!file || !condition || line == 0 || line >> 20 != 0) return std::nullopt;
  return *file + ":" + std::to_string(line) + ": " + (function ? *function + ": " : "") +
         "Assertion '" + *condition + "' failed.";
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
      return found("Go", value_of_panic(memory, go_panic(memory, m_of(memory, *thread))));
    }
    if (name == "runtime.throw" || name == "runtime.fatal" ||
        name.starts_with("runtime.fatalthrow")) {
      if (auto text = go_fatal_error(memory)) return found("Go", std::move(text));
    }
    if (has(name, "rust_panic") || has(name, "std::panicking::")) {
      return found("Rust", with_under_way(memory, rust_message(memory, stack, names)));
    }
    const bool is_of_cxx = name.starts_with("std::__glibcxx_assert_fail");
    const bool is_x86 = thread->registers.machine == elfcore::Machine::x86_64;
    if ((is_of_cxx || name == "__assert_fail") && is_x86 && i + 1 < stack.frames.size()) {
      constexpr std::uint64_t kCall = 5;  // bytes of the instruction
      const std::uint64_t call = stack.frames[i + 1].pc - kCall;
      return found("C", assertion(memory, call, is_of_cxx));
    }
    if (name.starts_with("v8::internal::Isolate::CreateMessageOrAbort")) {
      return found("JavaScript", v8_exception(memory, thread->registers.sp()));
    }
    if (name.starts_with("UnwindManagedExceptionPass1") ||
        name.starts_with("DispatchManagedException")) {
      return found(".NET", dotnet_exception(memory, thread->registers.sp()));
    }
  }
  // Nothing has a name.
  if (thread->signal == kTrap)
    return found("JavaScript", v8_exception(memory, thread->registers.sp()));
  if (!elfcore::may_have_aborted(memory, thread)) return std::nullopt;
  const std::uint64_t sp = thread->registers.sp();
  if (is_dotnet(memory.modules())) return found(".NET", dotnet_exception(memory, sp));
  if (const std::uint64_t m = m_of(memory, *thread)) {
    const std::uint64_t panic = go_panic(memory, m);
    auto text = value_of_panic(memory, panic);
    if (!text) text = go_fatal_error(memory);
    if (!text && panic != 0) text = "(a value of a type that is not known here)";
    return found("Go", std::move(text));
  }
  auto text = rust_last_words(memory, sp);
  if (!text) text = rust_payload(memory, sp & ~std::uint64_t{7}, sp + kHook);
  return found("Rust", with_under_way(memory, std::move(text)));
}

}  // namespace pm::unwind
