// Finds what a vector holds by the hash of its texts: the tables that are asked for every failed
// call are too large for the cache, and a std::unordered_map of strings misses it three times.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace pm::strace {

// Continues `hash` with a text.
inline std::uint64_t hash_text(std::uint64_t hash, std::string_view text) noexcept {
  constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15ULL;
  const auto mix = [&](std::uint64_t word) {
    hash = (hash ^ word) * kFactor;
    hash ^= hash >> 29;
  };
  mix(text.size());
  while (text.size() >= 8) {
    std::uint64_t word;
    std::memcpy(&word, text.data(), 8);
    mix(word);
    text.remove_prefix(8);
  }
  std::uint64_t last = 0;
  if (!text.empty()) std::memcpy(&last, text.data(), text.size());
  mix(last);
  return hash;
}

// An open table of places in a vector that only grows. What is at a place is compared by the
// caller.
class HashIndex {
 public:
  static constexpr std::uint32_t kNowhere = 0xffffffff;

  template <class Same>
  std::uint32_t find(std::uint64_t hash, Same same) const {
    if (slots_.empty()) return kNowhere;
    for (std::size_t at = hash & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
      const Slot& slot = slots_[at];
      if (slot.place == kNowhere) return kNowhere;
      if (slot.hash == hash && same(slot.place)) return slot.place;
    }
  }

  void add(std::uint64_t hash, std::uint32_t place) {
    if (2 * ++used_ > slots_.size()) grow();
    put({hash, place});
  }

 private:
  struct Slot {
    std::uint64_t hash = 0;
    std::uint32_t place = kNowhere;
  };
  void put(const Slot& slot) {
    std::size_t at = slot.hash & (slots_.size() - 1);
    while (slots_[at].place != kNowhere) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = slot;
  }
  void grow() {
    std::vector<Slot> old(slots_.empty() ? 256 : 2 * slots_.size());
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.place != kNowhere) put(slot);
    }
  }
  std::vector<Slot> slots_;
  std::size_t used_ = 0;
};

}  // namespace pm::strace
