#include "cpython/values.h"

#include <charconv>
#include <cmath>
#include <vector>

#include "elfcore/core.h"

namespace pm::cpython {
namespace {

constexpr std::size_t kTextLimit = 120;
constexpr std::size_t kItemTextLimit = 40;
constexpr std::size_t kBytesLimit = 40;
constexpr std::size_t kItemLimit = 5;
constexpr unsigned kMaxDepth = 2;
constexpr std::uint64_t kMaxDigits = 8;  // of 30 bits each

std::string place(const Type& type, std::uint64_t object) {
  const std::string name = type.name.empty() ? "object" : type.name;
  return "<" + name + " at " + elfcore::hex(object) + ">";
}

void append_escaped(std::string& out, unsigned char c, char quote) {
  static constexpr char kHex[] = "0123456789abcdef";
  if (c == static_cast<unsigned char>(quote) || c == '\\') {
    out += '\\';
    out += static_cast<char>(c);
  } else if (c == '\n') {
    out += "\\n";
  } else if (c == '\t') {
    out += "\\t";
  } else if (c == '\r') {
    out += "\\r";
  } else if (c < 0x20 || c == 0x7f) {
    out += "\\x";
    out += kHex[c >> 4];
    out += kHex[c & 15];
  } else {
    out += static_cast<char>(c);
  }
}

char quote_for(std::string_view text) {
  return text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
}

std::string quoted(std::string_view text) {
  const char quote = quote_for(text);
  std::string out(1, quote);
  for (const char c : text) append_escaped(out, static_cast<unsigned char>(c), quote);
  out.push_back(quote);
  return out;
}

std::string render_text(const Heap& heap, std::uint64_t object, const Type& type,
                        std::size_t limit) {
  const auto text = heap.text(object, limit);
  if (!text) return place(type, object);
  const auto length = heap.text_length(object).value_or(0);
  std::string out = quoted(*text);
  if (length > limit) out += "... (" + std::to_string(length) + " characters)";
  return out;
}

std::string render_bytes(const Heap& heap, std::uint64_t object, const Type& type) {
  static constexpr char kHex[] = "0123456789abcdef";
  const std::uint64_t length = heap.size(object, UINT64_MAX);
  std::vector<std::uint8_t> data(std::min<std::uint64_t>(length, kBytesLimit));
  const auto offset = static_cast<std::uint64_t>(heap.layout().bytes_data);
  if (!data.empty() && !heap.read(object + offset, data)) return place(type, object);
  const char quote = quote_for({reinterpret_cast<const char*>(data.data()), data.size()});
  std::string out("b");
  out.push_back(quote);
  for (const std::uint8_t byte : data) {
    if (byte < 0x80) {
      append_escaped(out, byte, quote);
    } else {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  out += quote;
  if (length > kBytesLimit) out += "... (" + std::to_string(length) + " bytes)";
  return out;
}

// Decimal digits of a number of 30-bit digits, least significant first.
std::string decimal(std::vector<std::uint32_t> digits) {
  std::string out;
  while (!digits.empty()) {
    std::uint64_t rest = 0;
    for (std::size_t i = digits.size(); i-- > 0;) {
      const std::uint64_t value = rest << 30 | digits[i];
      digits[i] = static_cast<std::uint32_t>(value / 10);
      rest = value % 10;
    }
    out.insert(out.begin(), static_cast<char>('0' + rest));
    while (!digits.empty() && digits.back() == 0) digits.pop_back();
  }
  return out.empty() ? "0" : out;
}

std::string render_int(const Heap& heap, std::uint64_t object, const Type& type) {
  const auto word = heap.field<std::int64_t>(object, heap.layout().int_size);
  if (!word) return place(type, object);
  const bool tagged = heap.features().tagged_sizes;
  const bool negative = tagged ? (*word & 3) == 2 : *word < 0;
  const auto plain = static_cast<std::uint64_t>(*word);
  const std::uint64_t count = tagged ? plain >> 3 : negative ? 0 - plain : plain;
  if (count > kMaxDigits) return "<int of about " + std::to_string(count * 30) + " bits>";
  std::vector<std::uint32_t> digits(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto digit = heap.get<std::uint32_t>(
        object + static_cast<std::uint64_t>(heap.layout().int_digits) + 4 * i);
    if (!digit || *digit >> 30) return place(type, object);
    digits[i] = *digit;
  }
  std::string text = decimal(std::move(digits));
  if (negative) text.insert(text.begin(), '-');
  return text;
}

std::string render_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  const double size = std::fabs(value);
  const bool fixed = value == 0 || (size >= 1e-4 && size < 1e16);
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value,
                                 fixed ? std::chars_format::fixed : std::chars_format::scientific);
  std::string out(buffer, end.ptr);
  if (fixed && out.find('.') == out.npos) out += ".0";
  return out;
}

std::string render(const Heap& heap, std::uint64_t object, unsigned depth);

std::string render_items(const Heap& heap, std::uint64_t object, const Type& type, unsigned depth) {
  const bool list = type.is(kList);
  const std::uint64_t count = heap.size(object, UINT64_MAX);
  const std::uint64_t items = list ? heap.pointer(object, heap.layout().list_items)
                                   : object + static_cast<std::uint64_t>(heap.layout().tuple_items);
  if (count == 0) return list ? "[]" : "()";
  if (depth >= kMaxDepth) {
    return "<" + type.name + " of " + std::to_string(count) + " items>";
  }
  std::string out(1, list ? '[' : '(');
  const std::uint64_t shown = std::min<std::uint64_t>(count, kItemLimit);
  for (std::uint64_t i = 0; i < shown; ++i) {
    const auto item = heap.get<std::uint64_t>(items + 8 * i);
    if (!item) return place(type, object);
    if (i > 0) out += ", ";
    out += render(heap, *item, depth + 1);
  }
  if (shown < count) out += ", ...";
  if (!list && count == 1) out += ",";
  out += list ? ']' : ')';
  if (shown < count) out += " (" + std::to_string(count) + " items)";
  return out;
}

std::string render_dict(const Heap& heap, std::uint64_t object, const Type& type, unsigned depth) {
  const auto used = heap.field<std::int64_t>(object, heap.layout().dict_used).value_or(0);
  if (used <= 0) return "{}";
  if (depth >= kMaxDepth) return "<dict of " + std::to_string(used) + " items>";
  std::string out = "{";
  std::size_t shown = 0;
  heap.each(object, [&](std::uint64_t key, std::uint64_t value) {
    if (shown > 0) out += ", ";
    out += render(heap, key, depth + 1) + ": " + render(heap, value, depth + 1);
    return ++shown < kItemLimit;
  });
  if (shown == 0) return place(type, object);
  const bool cut = static_cast<std::uint64_t>(used) > shown;
  return out + (cut ? ", ...} (" + std::to_string(used) + " items)" : "}");
}

std::string render(const Heap& heap, std::uint64_t object, unsigned depth) {
  if (object == 0) return "<null>";
  const Type type = heap.type_of(object);
  const std::string& name = type.name;
  if (name == "NoneType") return "None";
  if (name == "bool") {
    const auto value = heap.integer(object);
    return value ? (*value ? "True" : "False") : place(type, object);
  }
  if (name == "int" && type.is(kInt)) return render_int(heap, object, type);
  if (name == "float") {
    const auto value = heap.field<double>(object, heap.layout().float_value);
    return value ? render_float(*value) : place(type, object);
  }
  if (name == "str") {
    return render_text(heap, object, type, depth == 0 ? kTextLimit : kItemTextLimit);
  }
  if (name == "bytes" && type.is(kBytes)) return render_bytes(heap, object, type);
  if ((name == "list" && type.is(kList)) || (name == "tuple" && type.is(kTuple))) {
    return render_items(heap, object, type, depth);
  }
  if (name == "dict" && type.is(kDict)) return render_dict(heap, object, type, depth);
  if (name == "set" || name == "frozenset") {
    const auto used = heap.field<std::int64_t>(object, heap.layout().set_used);
    if (used && *used >= 0) return "<" + name + " of " + std::to_string(*used) + " items>";
  }
  return place(type, object);
}

}  // namespace

std::string render_value(const Heap& heap, std::uint64_t object) { return render(heap, object, 0); }

std::string render_message(const Heap& heap, std::uint64_t object, std::size_t limit) {
  if (const auto text = heap.text(object, limit)) {
    const bool cut = heap.text_length(object).value_or(0) > limit;
    return cut ? *text + "..." : *text;
  }
  return render(heap, object, 0);
}

}  // namespace pm::cpython
