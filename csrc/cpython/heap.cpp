#include "cpython/heap.h"

#include <algorithm>
#include <array>

namespace pm::cpython {
namespace {

constexpr std::size_t kTypeName = 200;
constexpr std::size_t kMaxTypes = 20'000;
constexpr std::uint64_t kMaxEntries = 1u << 20;

void append_utf8(std::string& out, std::uint32_t point) {
  const auto byte = [&out](std::uint32_t value) { out.push_back(static_cast<char>(value)); };
  if (point >= 0xdc80 && point <= 0xdcff) return byte(point - 0xdc00);  // surrogateescape
  if ((point >= 0xd800 && point <= 0xdfff) || point > 0x10ffff) point = 0xfffd;
  if (point < 0x80) return byte(point);
  if (point < 0x800) {
    byte(0xc0 | point >> 6);
  } else {
    if (point < 0x10000) {
      byte(0xe0 | point >> 12);
    } else {
      byte(0xf0 | point >> 18);
      byte(0x80 | (point >> 12 & 0x3f));
    }
    byte(0x80 | (point >> 6 & 0x3f));
  }
  byte(0x80 | (point & 0x3f));
}

// `state` of PyASCIIObject: interned, kind (bytes per code point), compact, ascii. `interned` had
// 2 bits up to 3.13 and may have 8 or 16 later; kind is never 0, so there is one way to read it.
struct TextState {
  unsigned kind = 0;
  bool compact = false, ascii = false;
};

std::optional<TextState> read_text_state(std::uint32_t word) {
  for (const unsigned shift : {2u, 16u, 8u}) {
    const unsigned kind = word >> shift & 7;
    if (kind == 0) continue;
    if (kind != 1 && kind != 2 && kind != 4) return std::nullopt;
    return TextState{kind, (word >> (shift + 3) & 1) != 0, (word >> (shift + 4) & 1) != 0};
  }
  return std::nullopt;
}

}  // namespace

const Type& Heap::type_of(std::uint64_t object) const {
  return type_at(pointer(object, layout_.object_type));
}

const Type& Heap::type_at(std::uint64_t address) const {
  static const Type kNone{};
  if (address == 0) return kNone;
  const auto known = types_.find(address);
  if (known != types_.end()) return known->second;
  // The type of a type is a type: else this was no object.
  if (types_.size() >= kMaxTypes ||
      pointer(pointer(address, layout_.object_type), layout_.object_type) == 0) {
    return kNone;
  }
  Type type;
  type.address = address;
  const std::uint64_t name = pointer(address, layout_.type_name);
  if (const auto learned = learned_.find(address); learned != learned_.end()) {
    type.name = learned->second;
  } else if (name) {
    type.name = memory_.text(name, kTypeName).value_or("");
  }
  type.flags = field<std::uint64_t>(address, layout_.type_flags).value_or(0);
  return types_.emplace(address, std::move(type)).first->second;
}

void Heap::learn_type_names(std::uint64_t modules) {
  // In `types` under other names than their own (Lib/types.py).
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kNames{{
      {"CodeType", "code"},
      {"FrameType", "frame"},
      {"TracebackType", "traceback"},
      {"CellType", "cell"},
      {"FunctionType", "function"},
      {"BuiltinFunctionType", "builtin_function_or_method"},
      {"MethodDescriptorType", "method_descriptor"},
      {"CoroutineType", "coroutine"},
      {"GeneratorType", "generator"},
      {"AsyncGeneratorType", "async_generator"},
  }};
  std::unordered_map<std::uint64_t, std::string> learned;
  // A module's dict is its first field (PyModuleObject.md_dict).
  each(pointer(lookup(modules, "builtins"), layout_.object_head),
       [&](std::uint64_t key, std::uint64_t value) {
         const bool type = type_of(value).is(kType);
         auto name = type ? text(key, kTypeName) : std::nullopt;
         // IOError and EnvironmentError are OSError too, and come later.
         if (name) learned.try_emplace(value, std::move(*name));
         if (is_text(key, "None")) {
           learned.try_emplace(pointer(value, layout_.object_type), "NoneType");
         }
         return learned.size() < kMaxTypes;
       });
  const std::uint64_t types = pointer(lookup(modules, "types"), layout_.object_head);
  for (const auto& [key, name] : kNames) {
    if (const std::uint64_t type = lookup(types, key)) learned.emplace(type, name);
  }
  const std::uint64_t locks = pointer(lookup(modules, "_thread"), layout_.object_head);
  if (const auto type = lookup(locks, "LockType")) learned.emplace(type, "_thread.lock");
  if (const auto type = lookup(locks, "RLock")) learned.emplace(type, "_thread.RLock");
  learned_ = std::move(learned);
  types_.clear();
}

std::uint64_t Heap::size(std::uint64_t object, std::uint64_t limit) const noexcept {
  const auto value = field<std::int64_t>(object, layout_.object_head);
  if (!value || *value <= 0) return 0;
  return std::min(static_cast<std::uint64_t>(*value), limit);
}

std::optional<std::uint64_t> Heap::text_length(std::uint64_t object) const {
  if (!type_of(object).is(kText)) return std::nullopt;
  const auto length = field<std::int64_t>(object, layout_.text_length);
  if (!length || *length < 0) return std::nullopt;
  return static_cast<std::uint64_t>(*length);
}

std::optional<std::string> Heap::text(std::uint64_t object, std::size_t limit) const {
  const auto length = text_length(object);
  const auto word = field<std::uint32_t>(object, layout_.text_state);
  const auto state = word ? read_text_state(*word) : std::nullopt;
  if (!length || !state) return std::nullopt;
  std::uint64_t data = 0;
  if (state->compact) {
    data = object +
           static_cast<std::uint64_t>(state->ascii ? layout_.text_ascii : layout_.text_compact);
  } else {
    data = pointer(object, layout_.text_data);
  }
  const std::size_t count = std::min<std::uint64_t>(*length, limit);
  std::vector<std::uint8_t> raw(count * state->kind);
  if (!read(data, raw)) return std::nullopt;
  std::string result;
  result.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t point = 0;
    std::copy_n(raw.begin() + static_cast<std::ptrdiff_t>(i * state->kind), state->kind,
                reinterpret_cast<std::uint8_t*>(&point));
    append_utf8(result, point);
  }
  charge(result.size());
  return result;
}

std::optional<std::vector<std::uint8_t>> Heap::bytes(std::uint64_t object,
                                                     std::size_t limit) const {
  if (!type_of(object).is(kBytes)) return std::nullopt;
  const auto length = field<std::int64_t>(object, layout_.object_head);
  if (!length || *length < 0 || static_cast<std::uint64_t>(*length) > limit) return std::nullopt;
  std::vector<std::uint8_t> result(static_cast<std::size_t>(*length));
  if (!read(object + static_cast<std::uint64_t>(layout_.bytes_data), result)) return std::nullopt;
  charge(result.size());
  return result;
}

std::optional<std::int64_t> Heap::integer(std::uint64_t object) const {
  if (!type_of(object).is(kInt)) return std::nullopt;
  const auto word = field<std::int64_t>(object, layout_.int_size);
  if (!word) return std::nullopt;
  std::uint64_t digits = 0;
  bool negative = false;
  if (features_.tagged_sizes) {
    // lv_tag: sign in two bits (0 positive, 1 zero, 2 negative), one reserved, digits above.
    digits = static_cast<std::uint64_t>(*word) >> 3;
    negative = (*word & 3) == 2;
  } else {
    negative = *word < 0;
    digits = negative ? 0 - static_cast<std::uint64_t>(*word) : static_cast<std::uint64_t>(*word);
  }
  if (digits > 3) return std::nullopt;
  std::uint64_t value = 0;
  for (std::uint64_t i = 0; i < digits; ++i) {
    const auto digit =
        get<std::uint32_t>(object + static_cast<std::uint64_t>(layout_.int_digits) + 4 * i);
    if (!digit || *digit >> 30) return std::nullopt;
    if (i == 2 && *digit >= 8) return std::nullopt;  // 63 bits
    value |= static_cast<std::uint64_t>(*digit) << (30 * i);
  }
  const auto result = static_cast<std::int64_t>(value);
  return negative ? -result : result;
}

// Entries of a keys object (Objects/dict-common.h, pycore_dict.h). With `values`, the table is
// shared by instances of a class and the values are the instance's own.
void Heap::each_entry(std::uint64_t keys, std::uint64_t values, const Visit& visit) const {
  const auto count = field<std::int64_t>(keys, layout_.keys_entries);
  if (!count || *count <= 0) return;
  const auto entries = std::min(static_cast<std::uint64_t>(*count), kMaxEntries);
  std::uint64_t index_bytes = 0;
  std::uint64_t stride = 24;  // hash, key, value
  if (layout_.keys_log2_bytes >= 0) {
    const auto log2 = field<std::uint8_t>(keys, layout_.keys_log2_bytes);
    const auto kind = field<std::uint8_t>(keys, layout_.keys_kind);
    if (!log2 || !kind || *log2 > 40) return;
    index_bytes = std::uint64_t{1} << *log2;
    if (*kind != 0) stride = 16;  // keys are str: no hash
  } else {
    const auto slots = field<std::uint64_t>(keys, layout_.keys_size);
    if (!slots || *slots > std::uint64_t{1} << 40) return;
    const std::uint64_t width = *slots <= 0xff ? 1 : *slots <= 0xffff ? 2 : *slots >> 32 ? 8 : 4;
    index_bytes = *slots * width;
  }
  const std::uint64_t first =
      keys + static_cast<std::uint64_t>(layout_.keys_indices) + index_bytes + (stride - 16);
  for (std::uint64_t i = 0; i < entries; ++i) {
    const auto entry = get<std::array<std::uint64_t, 2>>(first + i * stride);
    if (!entry) return;
    std::uint64_t value = (*entry)[1];
    if (values) value = get<std::uint64_t>(values + 8 * i).value_or(0);
    if ((*entry)[0] && value && !visit((*entry)[0], value)) return;
  }
}

void Heap::each(std::uint64_t dict, const Visit& visit) const {
  if (!type_of(dict).is(kDict)) return;
  std::uint64_t values = pointer(dict, layout_.dict_values);
  if (values && layout_.values_items > 0) {
    values += static_cast<std::uint64_t>(layout_.values_items);
  }
  each_entry(pointer(dict, layout_.dict_keys), values, visit);
}

// Objects/setobject.c: used, mask, and a table of mask + 1 entries of member and hash.
void Heap::each_member(std::uint64_t set, const std::function<bool(std::uint64_t)>& visit) const {
  if (type_of(set).name != "set") return;
  const auto mask = field<std::uint64_t>(set, layout_.set_used + 8);
  const std::uint64_t table = pointer(set, layout_.set_used + 16);
  if (!mask || *mask >= kMaxEntries || !table) return;
  for (std::uint64_t i = 0; i <= *mask && budget_ != 0; ++i) {
    const std::uint64_t member = get<std::uint64_t>(table + 16 * i).value_or(0);
    if (member && !visit(member)) return;
  }
}

bool Heap::is_text(std::uint64_t object, std::string_view expected) const {
  const auto length = field<std::int64_t>(object, layout_.text_length);
  if (!length || *length != static_cast<std::int64_t>(expected.size())) return false;
  return text(object, expected.size()) == expected;
}

std::uint64_t Heap::lookup(std::uint64_t dict, std::string_view key) const {
  std::uint64_t found = 0;
  each(dict, [&](std::uint64_t name, std::uint64_t value) {
    if (is_text(name, key)) found = value;
    return found == 0;
  });
  return found;
}

std::uint64_t Heap::lookup_split(std::uint64_t keys, std::uint64_t values,
                                 std::string_view key) const {
  std::uint64_t found = 0;
  each_entry(keys, values, [&](std::uint64_t name, std::uint64_t value) {
    if (is_text(name, key)) found = value;
    return found == 0;
  });
  return found;
}

std::uint64_t Heap::attribute(std::uint64_t object, std::string_view name) const {
  const Type type = type_of(object);
  if (type.address == 0) return 0;
  if (features_.attributes == Attributes::at_offset || !type.is(kManagedDict)) {
    const auto offset = field<std::int64_t>(type.address, layout_.type_dict_offset);
    if (!offset || *offset <= 0 || *offset > 1 << 20) return 0;
    return lookup(pointer(object, static_cast<std::int32_t>(*offset)), name);
  }
  const std::uint64_t keys = pointer(type.address, layout_.type_cached_keys);
  const auto in_front = static_cast<std::uint64_t>(-layout_.object_dict);
  std::uint64_t dict = get<std::uint64_t>(object - in_front).value_or(0);
  std::uint64_t values = 0;
  if (features_.attributes == Attributes::two_words) {
    values = get<std::uint64_t>(object - 32).value_or(0);
  } else if (features_.attributes == Attributes::one_word) {
    if (dict & 1) {  // one word for both: odd, it is the address of the values less one
      values = dict + 1;
      dict = 0;
    }
  } else if (dict == 0 && type.is(kInlineValues)) {
    const auto size = field<std::int64_t>(type.address, layout_.type_basic_size);
    if (!size || *size <= 0 || *size > 1 << 20) return 0;
    values = object + static_cast<std::uint64_t>(*size);
    if (field<std::uint8_t>(values, layout_.values_valid).value_or(0) == 0) return 0;
    values += static_cast<std::uint64_t>(layout_.values_items);
  }
  return values ? lookup_split(keys, values, name) : lookup(dict, name);
}

}  // namespace pm::cpython
