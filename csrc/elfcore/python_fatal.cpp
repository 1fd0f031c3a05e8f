#include "elfcore/python_fatal.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "elfcore/abort_message.h"

namespace pm::elfcore {
namespace {

// Of the stack: the frames of abort() and of Py_FatalError itself are small.
constexpr std::size_t kSearchedBytes = 16 << 10;
constexpr std::size_t kLongestFunction = 100, kLongestMessage = 1000;
// Of the stack that was left: the buffer of an unbuffered stream is 8 KiB (glibc's BUFSIZ).
constexpr std::uint64_t kLeftBytes = 16 << 10;
// Words around the return address into _Py_FatalErrorFunc that can be its registers: saved below it
// by fatal_error() on x86-64, above it on aarch64, and its own frame.
constexpr std::uint64_t kBelow = 12 * 8, kAbove = 12 * 8;

bool is_python(const Modules& modules, const Module& module) {
  return &module == modules.executable() ? module.name().starts_with("python")
                                         : module.name().starts_with("libpython3");
}

struct CodeRange {
  std::uint64_t start = 0, end = 0;
};

std::optional<CodeRange> fatal_function(const Memory& memory) {
  const Modules& modules = memory.modules();
  for (const Module& module : modules.all()) {
    const bool may_have = &module == modules.executable() || is_python(modules, module);
    if (!module.image || !may_have) continue;
    const auto symbol = module.image->dynamic_symbol("_Py_FatalErrorFunc");
    if (!symbol || symbol->type != STT_FUNC || symbol->size == 0) continue;
    const std::uint64_t start = module.bias + symbol->value;
    return CodeRange{start, start + symbol->size};
  }
  return std::nullopt;
}

bool is_function_name(const std::string& text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto is_part = [&](char c) { return is_letter(c) || c == '_' || (c >= '0' && c <= '9'); };
  return text.size() >= 2 && (is_letter(text[0]) || text[0] == '_') &&
         std::all_of(text.begin(), text.end(), is_part);
}

bool is_message(const std::string& text) {
  // Not what CPython itself writes around it.
  constexpr std::array<std::string_view, 2> kFrame{"Fatal Python error", "Python runtime state"};
  for (const std::string_view part : kFrame) {
    if (text.starts_with(part)) return false;
  }
  const auto is_printable = [](char c) { return static_cast<unsigned char>(c) >= 32 && c != 127; };
  return text.size() >= 4 && text.find(' ') != std::string::npos &&
         std::all_of(text.begin(), text.end(), is_printable);
}

// The two arguments stand in neighbouring registers, saved side by side.
std::optional<PythonFatal> read_pair(const Memory& memory, std::uint64_t low, std::uint64_t high) {
  const auto text_of = [&](std::uint64_t word, std::size_t limit) {
    return word < 65536 ? std::nullopt : memory.text(word, limit);
  };
  for (const auto& [name_word, message_word] : {std::pair(low, high), std::pair(high, low)}) {
    auto name = text_of(name_word, kLongestFunction);
    if (!name || !is_function_name(*name)) continue;
    auto message = text_of(message_word, kLongestMessage);
    if (message && is_message(*message)) return PythonFatal{std::move(*name), std::move(*message)};
  }
  return std::nullopt;
}

// The same where CPython's file is not here: what abort() returns to is CPython's, and beside it
// lie two pointers to constants of a library, or of CPython itself. Their text is mostly in files.
std::optional<PythonFatal> find_nameless(const Memory& memory, Bytes stack) {
  constexpr std::size_t kSearched = 0x400, kBefore = 14, kBehind = 8;  // bytes; words
  enum class Kind { other, constant, python, c_library, code };
  const auto kind_of = [&](std::uint64_t word) {
    const Segment* const segment = word < 4096 ? nullptr : memory.core().segment_at(word);
    const Module* const module = segment ? memory.modules().at(word) : nullptr;
    if (!module || (segment->flags & kWrite)) return Kind::other;
    if (!(segment->flags & kExecute)) return Kind::constant;
    if (is_python(memory.modules(), *module)) return Kind::python;
    return module->name().starts_with("libc") ? Kind::c_library : Kind::code;
  };
  const auto signal = memory.core().signal();
  if (signal && signal->code == 0) return std::nullopt;  // SI_USER: somebody sent it
  const std::size_t count = std::min(stack.size(), kSearched) / 8;
  const auto word = [&](std::size_t i) { return load<std::uint64_t>(stack, 8 * i).value_or(0); };
  std::size_t python = count;
  for (std::size_t i = 0; i + 1 < count; ++i) {
    const Kind kind = kind_of(word(i));
    if (kind == Kind::code) return std::nullopt;  // another one's abort
    if (kind == Kind::python) python = i;
    if (kind != Kind::constant || kind_of(word(i + 1)) != Kind::constant) continue;
    if (python == count || i - python > kBefore) continue;
    for (std::size_t j = i + 2; j < std::min(count, i + 2 + kBehind); ++j) {
      if (kind_of(word(j)) != Kind::python) continue;
      return read_pair(memory, word(i), word(i + 1)).value_or(PythonFatal{});
    }
  }
  return std::nullopt;
}

// What fprintf() was given: texts, and between them what it put in.
struct Format {
  std::vector<std::string> texts;
};

std::optional<Format> format_of(const std::string& text) {
  Format format{{""}};
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%' || text.substr(i, 2) == "%%") {
      format.texts.back() += text[i];
      i += text[i] == '%';
      continue;
    }
    i = text.find_first_of("diouxXcspfgeEG", i + 1);
    if (i == std::string::npos) return std::nullopt;
    format.texts.emplace_back();
  }
  constexpr std::size_t kShortest = 6;  // else any bytes may be what it wrote
  const bool is_one = format.texts.size() > 1 && format.texts.front().size() >= kShortest;
  return is_one ? std::optional(std::move(format)) : std::nullopt;
}

bool is_printable(char byte) { return byte >= 32 && byte < 127; }

// What fprintf() made of it: its buffer lies in stack that it has left.
std::optional<std::string> formatted(std::string_view left, const Format& format) {
  constexpr std::size_t kLongestValue = 300;
  const auto rest = [&](std::size_t at) -> std::optional<std::string> {
    std::string made = format.texts.front();
    at += made.size();
    for (std::size_t i = 1; i < format.texts.size(); ++i) {
      const std::string& next = format.texts[i];
      std::size_t end = at;
      const auto is_value = [&] { return end < left.size() && is_printable(left[end]); };
      // A byte that %c wrote need not be a character.
      while (end < left.size() && end < at + kLongestValue &&
             (next.empty() ? is_value() : !left.substr(end).starts_with(next))) {
        ++end;
      }
      if (!next.empty() && !left.substr(end).starts_with(next)) return std::nullopt;
      for (const char byte : left.substr(at, end - at)) {
        constexpr std::string_view kDigits = "0123456789abcdef";
        const auto value = static_cast<unsigned char>(byte);
        if (is_printable(byte)) {
          made += byte;
        } else if (end - at == 1) {
          made.append("\\x").append(1, kDigits[value >> 4]).append(1, kDigits[value & 15]);
        } else {
          return std::nullopt;
        }
      }
      made += next;
      at = end + next.size();
    }
    return made;
  };
  for (std::size_t at = left.find(format.texts.front()); at != std::string_view::npos;
       at = left.find(format.texts.front(), at + 1)) {
    if (auto made = rest(at)) return made;
  }
  return std::nullopt;
}

// The same of _Py_FatalErrorFormat(), which not every interpreter exports: its name and its format
// stand near each other, then what returns to CPython.
std::optional<PythonFatal> find_formatted(const Memory& memory, Bytes stack, std::uint64_t sp) {
  constexpr std::size_t kSearched = 0x400, kApart = 3, kBehind = 5;  // bytes; words
  const Segment* const segment = memory.core().segment_at(sp);
  if (!segment) return std::nullopt;
  const std::uint64_t low = std::max(segment->start, sp - std::min(sp, kLeftBytes));
  const std::string_view left = as_text(clip(memory.core().dumped_at(low), 0, sp - low));
  const auto word = [&](std::size_t i) { return load<std::uint64_t>(stack, 8 * i).value_or(0); };
  const auto constant = [&](std::size_t i, std::size_t limit) -> std::optional<std::string> {
    const Segment* const place = word(i) < 65536 ? nullptr : memory.core().segment_at(word(i));
    if (!place || (place->flags & kWrite) || !memory.modules().at(word(i))) return std::nullopt;
    return memory.text(word(i), limit);
  };
  const auto returns = [&](std::size_t i) {
    const Segment* const place = memory.core().segment_at(word(i));
    const Module* const module = memory.modules().at(word(i));
    return place && (place->flags & kExecute) && module && is_python(memory.modules(), *module);
  };
  const std::size_t count = std::min(stack.size(), kSearched) / 8;
  for (std::size_t i = 0; i < count; ++i) {
    const auto name = constant(i, kLongestFunction);
    if (!name || !is_function_name(*name)) continue;
    for (std::size_t j = i > kApart ? i - kApart : 0; j < std::min(count, i + kApart + 1); ++j) {
      const auto text = j == i ? std::nullopt : constant(j, kLongestMessage);
      const auto format = text && is_message(*text) ? format_of(*text) : std::nullopt;
      if (!format) continue;
      bool is_call = false;
      for (std::size_t k = 1; k <= kBehind; ++k) is_call |= returns(std::max(i, j) + k);
      auto made = is_call ? formatted(left, *format) : std::nullopt;
      if (made) return PythonFatal{*name, std::move(*made)};
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<PythonFatal> find_python_fatal(const Memory& memory) {
  const ThreadState* const thread = memory.core().crashed_thread();
  if (!may_have_aborted(memory, thread)) return std::nullopt;
  const std::uint64_t sp = thread->registers.sp() & ~std::uint64_t{7};
  const Bytes stack = clip(memory.core().dumped_at(sp), 0, kSearchedBytes);
  if (auto found = find_formatted(memory, stack, sp)) return found;
  const auto function = fatal_function(memory);
  if (!function) return find_nameless(memory, stack);
  for (std::uint64_t at = 0; at + 8 <= stack.size(); at += 8) {
    const std::uint64_t call = *load<std::uint64_t>(stack, at) - 1;
    if (call < function->start || call >= function->end) continue;
    const std::uint64_t first = at > kBelow ? at - kBelow : 0;
    for (std::uint64_t i = first; i <= at + kAbove && i + 16 <= stack.size(); i += 8) {
      const std::uint64_t low = *load<std::uint64_t>(stack, i);
      const std::uint64_t high = *load<std::uint64_t>(stack, i + 8);
      if (auto found = read_pair(memory, low, high)) return found;
    }
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace pm::elfcore
