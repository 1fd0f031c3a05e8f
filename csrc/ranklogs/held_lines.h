// The last lines of many writers. Their texts stand one behind the other as they came: a line is
// written to where the one before it was, and not to a place of its own writer, which is seldom in
// a cache.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "ranklogs/work.h"

namespace pm::ranklogs {

struct Held {
  std::uint64_t line = 0;  // in the file
  Again again;
  std::uint64_t at = 0;  // of its text
  std::uint32_t size = 0;
  bool plain = false;  // it is nothing special, and no error is open above it
  bool looked_at = false;
};

class HeldTexts {
 public:
  // Good until the next put() or pack().
  std::string_view of(const Held& held) const noexcept {
    return std::string_view(texts_).substr(held.at, held.size);
  }
  // Gives a line another text than it had.
  void put(Held& held, std::string_view text) {
    wanted_ += text.size() - held.size;
    held.at = texts_.size();
    held.size = static_cast<std::uint32_t>(text.size());
    texts_ += text;
  }
  // Whether so much is not wanted any more that pack() is worth its time.
  bool is_crowded() const noexcept {
    return texts_.size() - wanted_ > std::max(kRoom, wanted_ / 2);
  }
  // Leaves out what is not wanted any more: each(use) calls use(held) for all lines.
  template <class Each>
  void pack(Each each) {
    std::string packed;
    packed.reserve(wanted_ + kRoom);
    each([&](Held& held) {
      const std::size_t at = packed.size();
      packed += of(held);
      held.at = at;
    });
    texts_ = std::move(packed);
  }

 private:
  static constexpr std::size_t kRoom = std::size_t{2} << 20;
  std::string texts_;
  std::size_t wanted_ = 0;  // bytes
};

}  // namespace pm::ranklogs
