// Functions and source lines of addresses in the GPU code that a core has with it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "elfcore/image.h"

namespace pm::cudacore {

// A place that an address stands for.
struct Place {
  std::string function;  // demangled; empty: not known
  std::string file;      // as the compiler saw it; empty: compiled without -lineinfo
  std::uint32_t line = 0;
  bool inlined = false;  // into the place after it
};

struct CodePlace {
  std::string symbol;         // as the compiler mangled it
  std::uint64_t offset = 0;   // from the start of the function
  std::vector<Place> places;  // the innermost first; one at least
};

class Cubin {
 public:
  // Nothing when it is not ELF.
  static std::optional<Cubin> parse(Bytes bytes);

  bool covers(std::uint64_t address) const noexcept;
  bool has_lines() const noexcept { return has_lines_; }
  std::uint64_t functions() const noexcept { return code_.size(); }
  // What the work of `find` grows with.
  std::uint64_t symbol_bytes() const noexcept { return symbol_bytes_; }
  // For each of the sorted addresses; nothing where the code is not of this module.
  std::vector<std::optional<CodePlace>> find(std::span<const std::uint64_t> addresses) const;

 private:
  struct Code {
    std::uint64_t start = 0, end = 0;
    std::uint32_t index = 0;
    std::string_view kernel;  // of the section's name: .text.KERNEL
  };

  const Code* code_at(std::uint64_t address) const noexcept;

  std::shared_ptr<const elfcore::Image> image_;
  std::vector<Code> code_;  // sorted by start
  bool has_lines_ = false;
  std::uint64_t symbol_bytes_ = 0;
};

}  // namespace pm::cudacore
