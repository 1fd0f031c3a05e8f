// What a block adds to the summary where order does not matter: counted while it is extracted,
// added up when it is replayed. Every table is bounded by the lines of its block.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "strace/calls.h"

namespace pm::strace {

// An open hash table that is emptied for each block. An entry has `used` and equals a key.
template <class Entry>
class BlockTable {
 public:
  template <class Key>
  Entry& at(std::uint64_t hash, const Key& key) {
    if (2 * used_ >= slots_.size()) grow();
    std::size_t place = index(hash);
    while (used(slots_[place]) && !(slots_[place].entry == key)) place = next(place);
    Slot& slot = slots_[place];
    if (!used(slot)) {
      slot.turn = turn_;
      slot.hash = hash;
      slot.entry = Entry(key);
      ++used_;
    }
    return slot.entry;
  }

  template <class Visit>
  void each(Visit visit) const {
    for (const Slot& slot : slots_) {
      if (used(slot)) visit(slot.entry);
    }
  }

  bool empty() const noexcept { return used_ == 0; }
  std::size_t size() const noexcept { return used_; }

  void clear() {
    if (slots_.size() > kMostKept) slots_ = std::vector<Slot>();
    ++turn_;
    used_ = 0;
  }

 private:
  struct Slot {
    Entry entry;
    std::uint64_t hash = 0;
    std::uint64_t turn = 0;  // of the clearing after which it was filled
  };
  static constexpr std::size_t kMostKept = 8192;
  bool used(const Slot& slot) const noexcept { return slot.turn == turn_; }
  std::size_t index(std::uint64_t hash) const noexcept {
    return (hash * 0x9e3779b97f4a7c15ULL >> 32) & (slots_.size() - 1);
  }
  std::size_t next(std::size_t place) const noexcept { return (place + 1) & (slots_.size() - 1); }
  void grow() {
    std::vector<Slot> old(slots_.empty() ? 64 : 2 * slots_.size());
    old.swap(slots_);
    for (Slot& slot : old) {
      if (!used(slot)) continue;
      std::size_t place = index(slot.hash);
      while (used(slots_[place])) place = next(place);
      slots_[place] = slot;
    }
  }
  std::vector<Slot> slots_;
  std::size_t used_ = 0;
  std::uint64_t turn_ = 1;
};

// One call of one task.
struct Tally {
  std::uint32_t pid = 0;
  std::uint16_t call = kUnknownCall;
  std::uint64_t calls = 0;
  std::uint64_t errors = 0;
  std::uint64_t nanoseconds = 0;
  std::uint64_t brought = 0;      // those that returned a number above 0
  std::uint64_t again = 0;        // those that failed with EAGAIN
  std::string_view last;          // a line on which one ended that says why it may spin
  std::uint32_t last_number = 0;  // of the block
  // A loop spins where waits find something, and where other calls bring nothing.
  void returned(std::int64_t value, bool waits, std::string_view line,
                std::uint32_t number) noexcept {
    brought += value > 0;
    if (waits != (value > 0)) return;
    last = line;
    last_number = number;
  }
  struct Key {
    std::uint32_t pid;
    std::uint16_t call;
    std::uint64_t hash() const noexcept { return (std::uint64_t{pid} << 16) | call; }
  };
  Tally() = default;
  explicit Tally(const Key& key) : pid(key.pid), call(key.call) {}
  bool operator==(const Key& key) const noexcept { return pid == key.pid && call == key.call; }
};

// In place of a pid: the folder is not relative to where a task is.
constexpr std::uint32_t kAbsolute = 0xffffffff;

// Calls that look a path up, by the folder that they name, as seen from task `pid`.
struct FolderTally {
  std::string_view folder;  // as the log writes it, without the last part
  std::uint32_t pid = 0;
  std::uint64_t calls = 0;
  std::uint64_t errors = 0;
  std::uint64_t nanoseconds = 0;
  const char* first = nullptr;  // lines
  const char* last = nullptr;
  struct Key {
    std::string_view folder;
    std::uint32_t pid;
    std::uint64_t hash() const noexcept;
  };
  FolderTally() = default;
  explicit FolderTally(const Key& key) : folder(key.folder), pid(key.pid) {}
  bool operator==(const Key& key) const noexcept { return pid == key.pid && folder == key.folder; }
};

// What a task did with a futex: when it last woke others, and when it was last let through.
struct FutexTally {
  std::uint64_t address = 0;
  std::uint32_t pid = 0;
  std::uint32_t woke = 0;  // line of the block, from 1; 0: never
  std::uint32_t passed = 0;
  bool shared = false;
  struct Key {
    std::uint64_t address;
    std::uint32_t pid;
    std::uint64_t hash() const noexcept { return address ^ (std::uint64_t{pid} << 40); }
  };
  FutexTally() = default;
  explicit FutexTally(const Key& key) : address(key.address), pid(key.pid) {}
  bool operator==(const Key& key) const noexcept {
    return pid == key.pid && address == key.address;
  }
};

// How long calls are allowed to take before they are of interest, and what they do meanwhile.
enum class Pace : std::uint8_t { work, reading, waiting };

// The longest calls of a block, so that only they become events.
class Longest {
 public:
  // Whether a call is among the longest of its pace so far.
  bool takes(Pace pace, std::uint64_t nanoseconds) noexcept {
    Heap& heap = heaps_[static_cast<std::size_t>(pace)];
    return nanoseconds >= heap.least && insert(heap, nanoseconds);
  }
  void clear() noexcept { heaps_ = {}; }

 private:
  static constexpr std::size_t kMost = 12;
  static constexpr std::uint64_t kLeast = 1'000'000;  // what takes less than 1 ms is not slow
  struct Heap {
    std::array<std::uint64_t, kMost> times{};
    std::uint64_t least = kLeast;
  };
  static bool insert(Heap& heap, std::uint64_t nanoseconds) noexcept;
  std::array<Heap, 3> heaps_{};
};

struct Tallies {
  BlockTable<Tally> calls;
  BlockTable<FolderTally> folders;
  BlockTable<FutexTally> futexes;
  Longest longest;
  double first_time = -1;
  double last_time = -1;
  void clear();
};

// What a call spends its time with, by its name.
Pace pace_of(std::uint16_t call) noexcept;
std::string_view word_of(Pace pace) noexcept;
const Pace* paces() noexcept;  // by index of the call
// By index: whether a call asks a file system about a path: open, stat, access, readlink, unlink, …
const std::uint8_t* lookups() noexcept;

}  // namespace pm::strace
