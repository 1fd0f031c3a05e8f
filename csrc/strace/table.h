// The numbers that tasks have for open files: a tree of slots, of which a copy shares all that
// neither of both has changed since. A fork costs no more than what its child then does.
#pragma once

#include <cstdint>
#include <functional>

#include "strace/descriptors.h"

namespace pm::strace {

struct Slot {
  std::int32_t description = kNone;
  bool cloexec = false;
  Opened by;  // the call that gave this number
};

struct TableNode;

// The numbers of one or more tasks.
class Table {
 public:
  explicit Table(Descriptions* of) noexcept : descriptions_(of) {}
  Table(const Table& other) noexcept;
  Table& operator=(const Table&) = delete;
  ~Table();

  // The slot of a number that stands for something; nullptr for all others. Valid until a change.
  const Slot* find(std::int64_t number) const noexcept;
  std::int32_t at(std::int64_t number) const noexcept {
    const Slot* const slot = find(number);
    return slot ? slot->description : kNone;
  }
  // Takes over one use of `description`.
  void set(std::int64_t number, std::int32_t description, bool cloexec, const Opened& by);
  void clear(std::int64_t number) { set(number, kNone, false, {}); }
  void clear_range(std::int64_t first, std::int64_t last);
  void clear_cloexec();
  void set_cloexec(std::int64_t number, bool cloexec);
  void set_cloexec(std::int64_t first, std::int64_t last);

  // How many numbers stand for something.
  std::uint32_t size() const noexcept;
  // Calls `use` with them, in order, while it returns true.
  void each(const std::function<bool(std::int64_t number, const Slot& slot)>& use) const;

  static constexpr std::int64_t kMostNumbers = 1 << 20;

 private:
  TableNode* root_ = nullptr;
  unsigned height_ = 0;  // levels above the leaves
  Descriptions* descriptions_;
};

}  // namespace pm::strace
