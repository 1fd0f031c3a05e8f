// The ELF files that a process had mapped, found through NT_FILE and compared with those on disk.
//
// Never through r_debug: the link map lies in memory that a cut core has lost.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "elfcore/core.h"
#include "elfcore/image.h"

namespace pm::elfcore {

enum class ModuleStatus {
  ok,          // same build ID on disk
  missing,     // no such file here
  mismatch,    // another file is there now: its symbols and its text would lie
  unverified,  // no build ID to compare
};

struct Module {
  std::string path;  // as mapped, without the kernel's " (deleted)"
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  // What to add to a link-time address to get the run-time one.
  std::uint64_t bias = 0;
  bool deleted = false;
  ModuleStatus status = ModuleStatus::unverified;
  std::optional<std::string> build_id;
  std::optional<std::string> disk_build_id;
  std::string disk_path;  // the file that was compared; empty if none was found
  // The file on disk; null unless its text may be believed (`ok` or `unverified`).
  std::shared_ptr<const Image> image;
  std::vector<FileMapping> mappings;

  bool contains(std::uint64_t address) const noexcept { return address >= start && address < end; }
  std::string_view name() const noexcept {
    const std::string_view view = path;
    return view.substr(view.rfind('/') + 1);
  }
};

struct ModuleOptions {
  std::string executable;  // file to take for the main program; empty: the one that the core names
  std::string sysroot;     // folder under which mapped paths are looked up; empty: /
};

// What lies at a path now.
struct OnDisk {
  bool regular = false;
  bool readable = false;
  std::shared_ptr<const Image> image;  // null: no ELF file, or it cannot be opened
  std::string error;                   // why
};

class Modules {
 public:
  Modules(Core& core, const ModuleOptions& options);

  // By address.
  const std::vector<Module>& all() const noexcept { return modules_; }
  const Module* at(std::uint64_t address) const noexcept;
  std::optional<std::size_t> index_at(std::uint64_t address) const noexcept;
  // The main program: the module that holds the program headers the kernel told of (AT_PHDR).
  const Module* executable() const noexcept;
  // The first module whose file name begins so ("libc.so", "libstdc++.so").
  const Module* named(std::string_view prefix) const noexcept;

 private:
  void find(const Core& core);
  void open_files(Core& core, const ModuleOptions& options);
  void compare(Module& module, const Core& core, const std::string& disk_path);
  void take_executable(Module& module, Core& core, const std::string& path);
  const OnDisk& on_disk(const std::string& path);

  // A core may name one file any number of times: each is looked at once.
  std::unordered_map<std::string, OnDisk> on_disk_;
  std::vector<Module> modules_;
  std::optional<std::size_t> executable_;
  // What lies between mappings of a module and is none of its: the vdso, which an aarch64 kernel
  // puts into the gap that ld.so's alignment to 64 KiB leaves.
  std::uint64_t foreign_start_ = 0, foreign_end_ = 0;
};

// Memory of the dead process: what the core holds, and where it holds nothing, the text of modules
// on disk that are the same build.
class Memory {
 public:
  Memory(const Core& core, const Modules& modules) : core_(core), modules_(modules) {}

  // All of `out`, or nothing (false).
  bool read(std::uint64_t address, std::span<std::uint8_t> out) const noexcept;
  template <class T>
  std::optional<T> get(std::uint64_t address) const noexcept {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    if (!read(address, {reinterpret_cast<std::uint8_t*>(&value), sizeof value})) {
      return std::nullopt;
    }
    return value;
  }
  std::optional<std::uint64_t> word(std::uint64_t address) const noexcept {
    return get<std::uint64_t>(address);
  }
  // Text up to a NUL; nothing when unreadable. Longer than `limit` bytes it is cut there.
  std::optional<std::string> text(std::uint64_t address, std::size_t limit) const;
  // Bytes that lie together from the address on, at most to the end of a segment; maybe none.
  Bytes at(std::uint64_t address) const noexcept;

  const Core& core() const noexcept { return core_; }
  const Modules& modules() const noexcept { return modules_; }

 private:
  const Core& core_;
  const Modules& modules_;
};

}  // namespace pm::elfcore
