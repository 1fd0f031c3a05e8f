// Run-time type information of C++ objects (Itanium C++ ABI, section 2.9).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "elfcore/modules.h"

namespace pm::elfcore {

struct BaseClass {
  std::string name;           // mangled, as in the type information
  std::uint64_t address = 0;  // of that part of the object
  bool is_public = true;
};

enum class TypeKind { unknown, fundamental, pointer, enumeration, plain_class };

class TypeReader {
 public:
  explicit TypeReader(const Memory& memory) : memory_(memory) {}

  // The mangled name of a type, without the '*' of types that are local to a file.
  std::optional<std::string> name(std::uint64_t type) const;
  TypeKind kind(std::uint64_t type) const;
  // The class itself, then its bases, each before its own bases; where each begins in `object`.
  std::vector<BaseClass> classes(std::uint64_t type, std::uint64_t object) const;
  // Whether the code address is the start of the function of that (mangled) name.
  bool is_function(std::uint64_t address, std::string_view name) const;

 private:
  enum class Layout { other, leaf, single, multiple };
  Layout layout(std::uint64_t type) const;
  Layout guess_layout(std::uint64_t type) const;
  bool is_object(std::uint64_t address, std::uint64_t offset, std::string_view name) const;
  void walk(std::uint64_t type, std::uint64_t object, bool is_public, unsigned depth,
            std::vector<BaseClass>& result) const;

  const Memory& memory_;
};

// The name of a type in source form.
std::string type_name(const std::string& mangled);

}  // namespace pm::elfcore
