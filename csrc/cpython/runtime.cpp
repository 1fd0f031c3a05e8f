#include "cpython/runtime.h"

#include <algorithm>
#include <array>
#include <vector>

#include "cpython/debug_offsets.h"
#include "cpython/heap.h"

namespace pm::cpython {
namespace {

using elfcore::Memory;
using elfcore::Module;

// Of writable data; libpython has about 1 MiB.
constexpr std::uint64_t kMaxScan = 32u << 20;
// Words that lead to something like an interpreter, and what it may take to make sure of one.
constexpr unsigned kMaxTries = 64;
constexpr std::uint64_t kReadsToCheck = 20'000;
constexpr unsigned kOldest = 8, kLastWithoutOffsets = 12;

// "3.11" behind the first "python" of a file name, or the "311" of "cpython-311": 11; else 0.
unsigned minor_in_name(std::string_view name) {
  for (const auto& [mark, dot] : {std::pair<std::string_view, bool>{"cpython-3", false},
                                  std::pair<std::string_view, bool>{"python3.", true}}) {
    const std::size_t at = name.find(mark);
    if (at == name.npos) continue;
    unsigned value = 0;
    for (std::size_t i = at + mark.size(); i < name.size() && i < at + mark.size() + 2; ++i) {
      if (name[i] < '0' || name[i] > '9') break;
      value = value * 10 + static_cast<unsigned>(name[i] - '0');
    }
    if (value) return value;
  }
  return 0;
}

class Search {
 public:
  Search(const Memory& memory, Problems& problems) : memory_(memory), problems_(problems) {}

  std::optional<Runtime> run();

 private:
  std::optional<Runtime> by_symbol(const Module& module);
  std::optional<Runtime> by_section(const Module& module);
  std::optional<Runtime> by_content(const Module& module);
  std::optional<Runtime> at(std::uint64_t address, const Module& module);
  std::optional<Runtime> with_offsets(std::uint64_t address, const Module& module);
  std::optional<Runtime> with_table(std::uint64_t address, const Module& module, const Table& table,
                                    bool trusted);
  bool is_python(const Module& module) const;
  unsigned named_minor(const Module& module) const;
  std::optional<Version> version_symbol(const Module& module) const;

  const Memory& memory_;
  Problems& problems_;
  bool refused_ = false;
  std::uint64_t scan_left_ = kMaxScan;
  unsigned tries_left_ = kMaxTries;
};

// "python3.11", "libpython3.11.so.1.0"; not "libtorch_python.so", whose symbol table is long.
bool Search::is_python(const Module& module) const {
  return module.name().starts_with("python") || module.name().starts_with("libpython");
}

// From the module's own name, else from the names of extension modules and of the library folder.
unsigned Search::named_minor(const Module& module) const {
  if (const unsigned own = minor_in_name(module.name())) return own;
  for (const Module& other : memory_.modules().all()) {
    if (const unsigned minor = minor_in_name(other.name())) return minor;
  }
  for (const Module& other : memory_.modules().all()) {
    if (const unsigned minor = minor_in_name(other.path)) return minor;
  }
  return 0;
}

std::optional<Version> Search::version_symbol(const Module& module) const {
  if (!module.image) return std::nullopt;
  const auto symbol = module.image->dynamic_symbol("Py_Version");  // 3.11 and later
  if (!symbol) return std::nullopt;
  const auto value = memory_.get<std::uint32_t>(module.bias + symbol->value);
  if (!value || *value >> 24 != 3) return std::nullopt;
  return Version{*value};
}

// An interpreter stands there if one of its threads points back at it. sys.hexversion then gives
// the exact version, and proves that the table fits. `trusted`: the address comes from a symbol.
std::optional<Runtime> Search::with_table(std::uint64_t address, const Module& module,
                                          const Table& table, bool trusted) {
  const Layout& at = table.layout;
  const auto pointer = [this](std::uint64_t base, std::int32_t field) {
    return base ? memory_.word(base + static_cast<std::uint64_t>(field)).value_or(0) : 0;
  };
  const std::uint64_t interpreter = pointer(address, at.runtime_interpreters);
  const std::uint64_t thread = pointer(interpreter, at.interp_threads);
  if (!thread || pointer(thread, at.thread_interp) != interpreter || tries_left_ == 0) {
    return std::nullopt;
  }
  --tries_left_;
  Runtime found{address, table.version, false, table.layout, module.path};
  const Heap heap(memory_, at, table.version, kReadsToCheck);
  const std::uint64_t sys = heap.pointer(interpreter, at.interp_sysdict);
  if (const auto hex = heap.integer(heap.lookup(sys, "hexversion"))) {
    if (*hex >> 16 != table.version.hex >> 16) return std::nullopt;
    found.version.hex = static_cast<std::uint32_t>(*hex);
    found.exact_version = true;
    if (const Table* const nearer = nearest_table(found.version)) found.layout = nearer->layout;
  } else if (!trusted) {
    return std::nullopt;
  }
  return found;
}

std::optional<Runtime> Search::with_offsets(std::uint64_t address, const Module& module) {
  auto offsets = read_debug_offsets(memory_, address);
  if (!offsets) return std::nullopt;
  if (!offsets->refused.empty()) {
    refused_ = true;
    problems_.add(module.path, offsets->refused + "; its Python stacks are left out",
                  "pystack or py-spy may know it: pystack core CORE");
    return std::nullopt;
  }
  Runtime found;
  found.address = address;
  found.version = offsets->version;
  found.exact_version = true;
  found.layout = offsets->layout;
  found.library = module.path;
  return found;
}

std::optional<Runtime> Search::at(std::uint64_t address, const Module& module) {
  if (auto found = with_offsets(address, module)) return found;
  if (refused_) return std::nullopt;
  const auto version = version_symbol(module);
  const unsigned named = version ? version->minor() : named_minor(module);
  if (const Table* const table =
          nearest_table(version.value_or(Version{0x03000000 | named << 16}))) {
    if (named <= kLastWithoutOffsets) {
      if (auto found = with_table(address, module, *table, true)) {
        if (version) {
          found->version = *version;
          found->exact_version = true;
        }
        return found;
      }
    }
  } else if (named != 0) {
    refused_ = true;
    problems_.add(module.path, "CPython 3." + std::to_string(named) +
                                   " is not one whose structures are known (3.8 to 3." +
                                   std::to_string(kNewest) + "); its Python stacks are left out");
    return std::nullopt;
  }
  for (unsigned minor = kLastWithoutOffsets; minor >= kOldest; --minor) {
    if (minor == named) continue;
    if (const Table* const table = nearest_table(Version{0x03000000 | minor << 16})) {
      if (auto found = with_table(address, module, *table, false)) return found;
    }
  }
  return std::nullopt;
}

std::optional<Runtime> Search::by_symbol(const Module& module) {
  if (!module.image) return std::nullopt;
  auto symbol = module.image->dynamic_symbol("_PyRuntime");
  // Local in some static builds. Only where it can be: a .symtab may have a million rows.
  if (!symbol && is_python(module)) symbol = module.image->symbol("_PyRuntime");
  return symbol ? at(module.bias + symbol->value, module) : std::nullopt;
}

std::optional<Runtime> Search::by_section(const Module& module) {
  if (!module.image) return std::nullopt;
  const auto section = module.image->section(".PyRuntime");
  return section ? at(module.bias + section->address, module) : std::nullopt;
}

// The module's writable data, word by word: the cookie of 3.13 and later, or for older versions a
// word that leads to an interpreter.
std::optional<Runtime> Search::by_content(const Module& module) {
  const unsigned named = named_minor(module);
  const Table* const table = nearest_table(Version{0x03000000 | named << 16});
  // Of a program that shows no sign of Python, megabytes would be read for nothing.
  if (named == 0 && !is_python(module)) return std::nullopt;
  const bool has_offsets = named == 0 || named > kLastWithoutOffsets;
  for (const elfcore::Segment& segment : memory_.core().segments()) {
    if (!(segment.flags & elfcore::kWrite) || segment.start < module.start ||
        // Zero-initialised data (_PyRuntime up to 3.9) follows in memory without a file.
        segment.start > module.end) {
      continue;
    }
    const Bytes data = clip(memory_.core().dumped_at(segment.start), 0, scan_left_);
    scan_left_ -= data.size();
    for (std::uint64_t offset = 0; offset + 8 <= data.size(); offset += 8) {
      const std::uint64_t address = segment.start + offset;
      if (has_offsets && as_text(data.subspan(offset, 8)) == kDebugCookie) {
        if (auto found = with_offsets(address, module)) return found;
        if (refused_) return std::nullopt;
      }
      const auto word = load<std::uint64_t>(data, offset).value_or(0);
      if (!table || has_offsets || word < 4096 || word & 7) continue;
      const auto field = static_cast<std::uint64_t>(table->layout.runtime_interpreters);
      if (memory_.core().dumped_at(word).empty() || address < field) continue;
      if (auto found = with_table(address - field, module, *table, false)) return found;
    }
  }
  return std::nullopt;
}

std::optional<Runtime> Search::run() {
  const Module* const program = memory_.modules().executable();
  std::vector<const Module*> likely, others;
  for (const Module& module : memory_.modules().all()) {
    (is_python(module) || &module == program ? likely : others).push_back(&module);
  }
  for (const auto& group : {likely, others}) {
    for (const Module* const module : group) {
      if (auto found = by_symbol(*module)) return found;
      if (refused_) return std::nullopt;
    }
  }
  const Module* python = nullptr;
  for (const Module* const module : likely) {
    if (is_python(*module)) python = module;
    for (const auto way : {&Search::by_section, &Search::by_content}) {
      if (auto found = (this->*way)(*module)) return found;
      if (refused_) return std::nullopt;
    }
  }
  if (python) {
    problems_.add(python->path,
                  "the state of the Python interpreter was not found in the core; its Python "
                  "stacks are left out",
                  memory_.core().truncated()
                      ? "the core is cut off, and what is missing is at its end: let the next one "
                        "be written in full"
                      : "");
  }
  return std::nullopt;
}

}  // namespace

std::optional<Runtime> find_runtime(const elfcore::Memory& memory, Problems& problems) {
  return Search(memory, problems).run();
}

}  // namespace pm::cpython
