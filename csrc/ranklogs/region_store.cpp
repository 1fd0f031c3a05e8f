#include "ranklogs/region_store.h"

#include <algorithm>

namespace pm::ranklogs {
namespace {

// Of one kind and writer, so many regions from the start and from the end are kept.
constexpr std::size_t kKeptFirst = 24;
constexpr std::size_t kKeptLast = 24;
// The lines without a prefix may be those of all ranks.
constexpr std::size_t kSharedFactor = 40;

std::size_t first_kind(Kinds kinds, std::size_t last) noexcept {
  std::size_t kind = 0;
  while (kind < last && !(kinds >> kind & 1)) ++kind;
  return kind;
}

}  // namespace

RegionStore::Slot& RegionStore::slot_of(const Region& region) {
  if (of_writers_.size() <= region.label) of_writers_.resize(region.label + 1);
  auto& of_writer = of_writers_[region.label];
  if (!of_writer) of_writer = std::make_unique<OfWriter>();
  auto& slot = (*of_writer)[first_kind(region.kinds, kKinds - 1)];
  if (!slot) slot = std::make_unique<Slot>();
  return *slot;
}

void RegionStore::keep(Region&& region, std::size_t bytes) {
  if (kept_bytes_ + bytes > most_bytes_) {
    ++left_out_;
    return;
  }
  kept_bytes_ += bytes;
  const std::size_t factor = region.label == 0 ? kSharedFactor : 1;
  Slot& slot = slot_of(region);
  if (slot.first.size() < kKeptFirst * factor) {
    slot.first.push_back(std::move(region));
    return;
  }
  slot.last.push_back(std::move(region));
  if (slot.last.size() > kKeptLast * factor) {
    for (const Row& row : slot.last.front().rows) {
      kept_bytes_ -= std::min(kept_bytes_, row.text.size() + sizeof(Row));
    }
    slot.last.pop_front();
    ++left_out_;
  }
}

std::vector<Region> RegionStore::take() {
  std::vector<Region> regions;
  for (const auto& of_writer : of_writers_) {
    if (!of_writer) continue;
    for (const auto& slot : *of_writer) {
      if (!slot) continue;
      for (Region& region : slot->first) regions.push_back(std::move(region));
      for (Region& region : slot->last) regions.push_back(std::move(region));
    }
  }
  of_writers_.clear();
  std::stable_sort(regions.begin(), regions.end(), [](const Region& a, const Region& b) {
    return a.rows.front().line < b.rows.front().line;
  });
  return regions;
}

}  // namespace pm::ranklogs
