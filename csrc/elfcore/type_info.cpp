#include "elfcore/type_info.h"

#include <algorithm>

#include "base/demangle.h"

namespace pm::elfcore {
namespace {

constexpr std::size_t kMaxTypeName = 4096;
constexpr unsigned kMaxDepth = 16;
constexpr std::size_t kMaxClasses = 64;
constexpr std::uint64_t kVtableHead = 16;  // offset to top and type information

bool is_name(const std::string& text) {
  return !text.empty() && text.size() < kMaxTypeName &&
         std::all_of(
             text.begin(), text.end(),
             [](char c) {
               return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                      c == '_' || c == '.' || c == '$';
             });
}

// Names of classes, not of built-in types: a length, a nested name or a substitution.
bool is_class_name(const std::string& text) {
  return text.size() > 1 &&
         ((text[0] >= '1' && text[0] <= '9') || text[0] == 'N' || text[0] == 'S' || text[0] == 'Z');
}

// A program linked without PIC has its own address for a library's function: the entry in its
// procedure linkage table, kept as the value of an undefined symbol.
bool is_linkage_entry(const Image& image, std::uint64_t address, std::string_view name) {
  const std::vector<ImageSection> all = image.sections();
  for (const ImageSection& row : all) {
    if (row.type != SHT_DYNSYM || row.link >= all.size()) continue;
    const Bytes strings = image.content(all[row.link]);
    Cursor cursor(image.content(row));
    while (cursor.left() >= sizeof(Elf64_Sym)) {
      const auto symbol = cursor.get<Elf64_Sym>();
      if (symbol.st_shndx != SHN_UNDEF || symbol.st_value != address) continue;
      const auto text = exact(strings, symbol.st_name, name.size() + 1);
      if (text && text->back() == 0 && as_text(text->first(name.size())) == name) return true;
    }
  }
  return false;
}

}  // namespace

std::string type_name(const std::string& mangled) {
  constexpr std::string_view kPrefix = "typeinfo name for ";
  const std::string text = demangle("_ZTS" + mangled);
  return text.starts_with(kPrefix) ? text.substr(kPrefix.size()) : mangled;
}

std::optional<std::string> TypeReader::name(std::uint64_t type) const {
  const auto pointer = memory_.word(type + 8);
  if (!pointer || *pointer == 0) return std::nullopt;
  auto text = memory_.text(*pointer, kMaxTypeName);
  if (!text) return std::nullopt;
  if (text->starts_with('*')) text->erase(0, 1);
  if (!is_name(*text)) return std::nullopt;
  return text;
}

bool TypeReader::is_object(std::uint64_t address, std::uint64_t offset,
                           std::string_view name) const {
  const Module* module = memory_.modules().at(address);
  if (!module) {
    // Copied into the program's .bss, which lies behind its mapped file.
    const Module* const executable = memory_.modules().executable();
    if (!executable || address < executable->end || address - executable->end > (1u << 26)) {
      return false;
    }
    module = executable;
  }
  if (!module->image) return false;
  const auto symbol = module->image->dynamic_symbol(name);
  return symbol && module->bias + symbol->value + offset == address;
}

bool TypeReader::is_function(std::uint64_t address, std::string_view name) const {
  const Module* const module = memory_.modules().at(address);
  if (!module || !module->image) return false;
  const auto symbol = module->image->dynamic_symbol(name);
  if (symbol) return module->bias + symbol->value == address;
  return module == memory_.modules().executable() &&
         is_linkage_entry(*module->image, address - module->bias, name);
}

TypeKind TypeReader::kind(std::uint64_t type) const {
  const auto table = memory_.word(type);
  if (!table) return TypeKind::unknown;
  if (is_object(*table, kVtableHead, "_ZTVN10__cxxabiv116__enum_type_infoE")) {
    return TypeKind::enumeration;
  }
  if (is_object(*table, kVtableHead, "_ZTVN10__cxxabiv119__pointer_type_infoE")) {
    return TypeKind::pointer;
  }
  if (is_object(*table, kVtableHead, "_ZTVN10__cxxabiv123__fundamental_type_infoE")) {
    return TypeKind::fundamental;
  }
  return layout(type) == Layout::other ? TypeKind::unknown : TypeKind::plain_class;
}

TypeReader::Layout TypeReader::layout(std::uint64_t type) const {
  const auto table = memory_.word(type);
  if (!table) return Layout::other;
  if (is_object(*table, kVtableHead, "_ZTVN10__cxxabiv120__si_class_type_infoE")) {
    return Layout::single;
  }
  if (is_object(*table, kVtableHead, "_ZTVN10__cxxabiv121__vmi_class_type_infoE")) {
    return Layout::multiple;
  }
  if (is_object(*table, kVtableHead, "_ZTVN10__cxxabiv117__class_type_infoE")) return Layout::leaf;
  const Module* const module = memory_.modules().at(*table);
  if (module && module->image &&
      module->image->dynamic_symbol("_ZTVN10__cxxabiv117__class_type_infoE")) {
    return Layout::other;  // a run-time library that we know, and none of its class kinds
  }
  return guess_layout(type);
}

// A run-time library without symbols (linked statically): by the shape of what follows.
TypeReader::Layout TypeReader::guess_layout(std::uint64_t type) const {
  const auto own = name(type);
  if (!own || !is_class_name(*own)) return Layout::other;
  const auto is_type = [&](std::uint64_t address) {
    if (address < 65536 || address % 8 != 0) return false;
    const auto table = memory_.word(address);
    const auto text = table && *table % 8 == 0 ? name(address) : std::nullopt;
    return text && is_class_name(*text);
  };
  const auto next = memory_.word(type + 16);
  if (!next) return Layout::leaf;
  if (is_type(*next)) return Layout::single;
  const std::uint64_t flags = *next & 0xffffffff, count = *next >> 32;
  if (flags <= 3 && count >= 1 && count <= 16) {
    const auto first = memory_.word(type + 24);
    if (first && is_type(*first)) return Layout::multiple;
  }
  return Layout::leaf;
}

void TypeReader::walk(std::uint64_t type, std::uint64_t object, bool is_public, unsigned depth,
                      std::vector<BaseClass>& result) const {
  auto text = name(type);
  if (!text || depth > kMaxDepth || result.size() >= kMaxClasses) return;
  const bool known = std::any_of(result.begin(), result.end(), [&](const BaseClass& base) {
    return base.name == *text && base.address == object;
  });
  if (known) return;
  result.push_back({std::move(*text), object, is_public});
  const Layout shape = layout(type);
  if (shape == Layout::single) {
    if (const auto base = memory_.word(type + 16))
      walk(*base, object, is_public, depth + 1, result);
  }
  if (shape != Layout::multiple) return;
  const auto count = memory_.get<std::uint32_t>(type + 20);
  for (std::uint64_t i = 0; count && i < std::min<std::uint32_t>(*count, kMaxClasses); ++i) {
    const auto base = memory_.word(type + 24 + 16 * i);
    const auto flags = memory_.get<std::int64_t>(type + 32 + 16 * i);
    if (!base || !flags) return;
    constexpr std::int64_t kVirtual = 1, kPublic = 2;
    auto offset = static_cast<std::uint64_t>(*flags >> 8);
    if (*flags & kVirtual) {  // then the offset is that of a slot in the object's vtable
      const auto table = memory_.word(object);
      const auto distance = table ? memory_.word(*table + offset) : std::nullopt;
      if (!distance) continue;
      offset = *distance;
    }
    walk(*base, object + offset, is_public && (*flags & kPublic), depth + 1, result);
  }
}

std::vector<BaseClass> TypeReader::classes(std::uint64_t type, std::uint64_t object) const {
  std::vector<BaseClass> result;
  walk(type, object, true, 0, result);
  return result;
}

}  // namespace pm::elfcore
