// Names of functions, for a batch of addresses at once.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "elfcore/modules.h"
#include "unwind/vdso.h"

namespace pm::unwind {

struct Symbol {
  std::string name;         // demangled
  std::uint64_t start = 0;  // run-time address
};

class Symbolizer {
 public:
  Symbolizer(const elfcore::Memory& memory, std::string sysroot);

  // Looks all of them up: one pass over the symbol tables of each module, however many addresses.
  // A module whose file is missing or another build gives no names.
  void resolve(std::vector<std::uint64_t> addresses);
  // Null when the address was not resolved to a name.
  const Symbol* find(std::uint64_t address) const noexcept;
  const Vdso& vdso() const noexcept { return vdso_; }

 private:
  // Addresses of modules that are the same file: link-time, with the bias of each.
  struct Linked {
    std::uint64_t address = 0;
    std::uint64_t bias = 0;
    bool operator<(const Linked& other) const noexcept { return address < other.address; }
  };
  void resolve_in(const elfcore::Module& module, std::vector<Linked> addresses);
  void resolve_in_vdso(std::span<const std::uint64_t> addresses);
  void keep(std::uint64_t address, std::string name, std::uint64_t start);

  const elfcore::Memory& memory_;
  std::string sysroot_;
  Vdso vdso_;
  std::unordered_map<std::uint64_t, Symbol> symbols_;
};

}  // namespace pm::unwind
