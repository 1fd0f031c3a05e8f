// Objects of the dead interpreter: bounded, checked reads.
//
// A core is hostile: pointers may lead anywhere, in circles, or to other types. Every read is
// counted against one budget; when it is spent, everything reads as absent.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cpython/features.h"
#include "cpython/layout.h"
#include "elfcore/modules.h"

namespace pm::cpython {

// Py_TPFLAGS_* of Include/object.h, the same in all versions that have them.
inline constexpr std::uint64_t kInlineValues = 1u << 2, kManagedDict = 1u << 4, kHeapType = 1u << 9,
                               kInt = 1u << 24, kList = 1u << 25, kTuple = 1u << 26,
                               kBytes = 1u << 27, kText = 1u << 28, kDict = 1u << 29,
                               kException = 1u << 30, kType = 1u << 31;

struct Type {
  std::uint64_t address = 0;
  std::string name;  // tp_name; empty: it cannot be read
  std::uint64_t flags = 0;
  bool is(std::uint64_t flag) const noexcept { return (flags & flag) != 0; }
};

class Heap {
 public:
  // About half a second of reads; 250 threads of 50 frames need a tenth of it.
  static constexpr std::uint64_t kReads = 6'000'000;
  static constexpr std::size_t kMaxKept = 128u << 20;

  Heap(const elfcore::Memory& memory, const Layout& layout, Version version,
       std::uint64_t reads = kReads)
      : memory_(memory), layout_(layout), features_(Features::of(version)), budget_(reads) {}

  const Layout& layout() const noexcept { return layout_; }
  const Features& features() const noexcept { return features_; }
  const elfcore::Memory& memory() const noexcept { return memory_; }
  bool exhausted() const noexcept { return budget_ == 0; }
  // Counts memory that is kept of what was read: one long text may stand in a million frames.
  void charge(std::size_t bytes) const noexcept {
    kept_ += bytes;
    if (kept_ > kMaxKept) budget_ = 0;
  }

  template <class T>
  std::optional<T> get(std::uint64_t address) const noexcept {
    if (budget_ == 0) return std::nullopt;
    --budget_;
    return memory_.get<T>(address);
  }
  // The pointer in a field; 0 when the field is absent, unreadable or null.
  std::uint64_t pointer(std::uint64_t object, std::int32_t field) const noexcept {
    if (object == 0 || field < 0) return 0;
    return get<std::uint64_t>(object + static_cast<std::uint64_t>(field)).value_or(0);
  }
  template <class T>
  std::optional<T> field(std::uint64_t object, std::int32_t field) const noexcept {
    if (object == 0 || field < 0) return std::nullopt;
    return get<T>(object + static_cast<std::uint64_t>(field));
  }
  bool read(std::uint64_t address, std::span<std::uint8_t> out) const noexcept {
    if (budget_ == 0) return false;
    --budget_;
    return memory_.read(address, out);
  }

  const Type& type_of(std::uint64_t object) const;
  // The type that stands at the address itself.
  const Type& type_at(std::uint64_t address) const;
  // The names of built-in types are constants of the interpreter's library: a core does not hold
  // them, and the library may be missing here. The modules `builtins` and `types` name them too.
  void learn_type_names(std::uint64_t modules);
  // Py_SIZE of a sized object, 0 to `limit`.
  std::uint64_t size(std::uint64_t object, std::uint64_t limit) const noexcept;
  // Text of a str in UTF-8, at most `limit` code points of it; nothing for what is no str. What
  // os.fsdecode() could not decode (U+DC80 to U+DCFF) comes as the byte that it was.
  std::optional<std::string> text(std::uint64_t object, std::size_t limit) const;
  // Code points of a str, if it is one.
  std::optional<std::uint64_t> text_length(std::uint64_t object) const;
  // Contents of a bytes object, if it is one and not longer than `limit`.
  std::optional<std::vector<std::uint8_t>> bytes(std::uint64_t object, std::size_t limit) const;
  std::optional<std::int64_t> integer(std::uint64_t object) const;

  using Visit = std::function<bool(std::uint64_t key, std::uint64_t value)>;
  // Each entry of a dict in order, until `visit` says false.
  void each(std::uint64_t dict, const Visit& visit) const;
  // Each member of a set, until `visit` says false.
  void each_member(std::uint64_t set, const std::function<bool(std::uint64_t)>& visit) const;
  // The value under a str key; 0: none.
  std::uint64_t lookup(std::uint64_t dict, std::string_view key) const;
  // An attribute that the object itself has (not its class); 0: none.
  std::uint64_t attribute(std::uint64_t object, std::string_view name) const;

 private:
  void each_entry(std::uint64_t keys, std::uint64_t values, const Visit& visit) const;
  bool is_text(std::uint64_t object, std::string_view expected) const;
  std::uint64_t lookup_split(std::uint64_t keys, std::uint64_t values, std::string_view key) const;

  const elfcore::Memory& memory_;
  Layout layout_;
  Features features_;
  mutable std::uint64_t budget_;
  mutable std::size_t kept_ = 0;
  mutable std::unordered_map<std::uint64_t, Type> types_;
  std::unordered_map<std::uint64_t, std::string> learned_;
};

}  // namespace pm::cpython
