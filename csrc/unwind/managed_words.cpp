#include "unwind/managed_words.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

namespace pm::unwind {
namespace {

using elfcore::Memory;

// What a stack pointer has around it: also what functions that have returned left below.
Bytes stack_around(const Memory& memory, std::uint64_t sp) {
  const elfcore::Segment* const segment = memory.core().segment_at(sp);
  if (!segment || segment->start > sp) return {};
  const std::uint64_t from = sp < kSearched ? 0 : (sp - kSearched) & ~std::uint64_t{7};
  const std::uint64_t start = std::max(from, segment->start);
  return clip(memory.core().dumped_at(start), 0, sp + kSearched - start);
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

// A System.Exception: method table, _exceptionMethod, _message, _data, _innerException, more
// references, and among the numbers behind them _xcode, which is this of what managed code threw,
// with _HResult beside it (System.Private.CoreLib/src/System/Exception.CoreCLR.cs).
constexpr std::uint64_t kMessageOfException = 16, kInnerOfException = 32;

bool is_dotnet_exception(const Memory& memory, std::uint64_t object) {
  constexpr std::uint64_t kFirst = 64, kLast = 160;
  constexpr std::uint32_t kThrown = 0xe0434352, kFailure = 0x80000000;
  const auto table = memory.word(object);
  if (object % 8 != 0 || !table || *table % 8 != 0 || !memory.word(*table)) return false;
  for (std::uint64_t at = object + kFirst; at < object + kLast; at += 4) {
    if (memory.get<std::uint32_t>(at) != kThrown) continue;
    const auto before = memory.get<std::uint32_t>(at - 4),
               after = memory.get<std::uint32_t>(at + 4);
    return ((before.value_or(0) | after.value_or(0)) & kFailure) != 0;
  }
  return false;
}

// A System.String: method table, length, UTF-16, a null behind.
std::optional<std::string> dotnet_string(const Memory& memory, std::uint64_t object) {
  const auto length = memory.get<std::uint32_t>(object + 8);
  if (!length || *length == 0 || *length > kLongest) return std::nullopt;
  std::vector<std::uint16_t> units(*length + 1);
  if (!memory.read(object + 12,
                   {reinterpret_cast<std::uint8_t*>(units.data()), units.size() * 2}) ||
      units.back() != 0) {
    return std::nullopt;
  }
  units.pop_back();
  std::string text = utf8_of(units);
  return is_text(text) ? std::optional(std::move(text)) : std::nullopt;
}

// The message of the exception that the stack points to, itself or by a handle: that of the outer
// one where it has another inside. Its type is told by tables that are not read.
std::optional<std::string> dotnet_message(const Memory& memory, Bytes stack) {
  std::set<std::uint64_t> seen, objects, inner;
  for (std::size_t at = 0; at + 8 <= stack.size(); at += 8) {
    const std::uint64_t word = *load<std::uint64_t>(stack, at);
    if (word < 65536 || word % 8 != 0) continue;
    for (const std::uint64_t object : {word, memory.word(word).value_or(0)}) {
      if (!seen.insert(object).second || !is_dotnet_exception(memory, object)) continue;
      objects.insert(object);
      inner.insert(memory.word(object + kInnerOfException).value_or(0));
    }
  }
  std::optional<std::string> found;
  for (const std::uint64_t object : objects) {
    if (inner.contains(object)) continue;
    auto text = dotnet_string(memory, memory.word(object + kMessageOfException).value_or(0));
    if (!text || text == found) continue;
    if (found) return std::nullopt;  // two that differ: nobody knows which
    found = std::move(text);
  }
  return found;
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
    if (line.ends_with(')') && open != line.npos && line.find(':', open) != line.npos) best = run;
  }
  return std::string(best);
}

}  // namespace

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
    const bool is_type =
        !head.empty() && head.substr(0, colon).find(' ') == head.npos && head[0] > 64;
    if (is_type && text.size() > best.size()) best = std::move(text);
  }
  return best.empty() ? dotnet_message(memory, stack) : std::optional(best);
}

std::optional<std::string> v8_exception(const Memory& memory, std::uint64_t sp) {
  const Bytes stack = stack_around(memory, sp);
  auto text = v8_message(memory, stack);
  if (!text) return std::nullopt;
  const std::string frames = v8_stack(stack);
  return frames.empty() ? text : std::optional(*text + '\n' + frames);
}

}  // namespace pm::unwind
