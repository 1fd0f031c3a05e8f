// Keeps regions: of each writer and kind the first ones and the last ones.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "ranklogs/reader.h"

namespace pm::ranklogs {

class RegionStore {
 public:
  explicit RegionStore(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  // `bytes` is what the region takes up.
  void keep(Region&& region, std::size_t bytes);
  // All that were kept, in the order of their first lines.
  std::vector<Region> take();

  std::uint64_t left_out() const noexcept { return left_out_; }

 private:
  static constexpr std::size_t kKinds = static_cast<std::size_t>(Kind::kCount);
  struct Slot {
    std::vector<Region> first;
    std::deque<Region> last;
  };
  using OfWriter = std::array<std::unique_ptr<Slot>, kKinds>;

  Slot& slot_of(const Region& region);

  std::size_t most_bytes_;
  std::size_t kept_bytes_ = 0;
  std::uint64_t left_out_ = 0;
  std::vector<std::unique_ptr<OfWriter>> of_writers_;
};

}  // namespace pm::ranklogs
