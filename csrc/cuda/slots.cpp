#include "cuda/slots.h"

#include <atomic>

namespace pm::cuda {

Slots::Slots(const Record* records, u32 ring, u32 captured)
    : records_(records),
      ring_(ring),
      runs_(ring, 0),
      owners_(ring + captured, nullptr),
      in_graph_(ring + captured, false) {
  for (u32 i = captured; i-- > 0;) free_.push_back(ring + i);
}

bool Slots::arrived(u32 slot) const {
  const bool there = static_cast<u32>(records_[slot].ended) == runs_[slot];
  std::atomic_thread_fence(std::memory_order_acquire);
  return there;
}

void Slots::read(Pending& pending) const {
  const volatile Tally& from = records_[pending.slot].tally;
  pending.tally.largest = from.largest;
  pending.tally.least_less_one = from.least_less_one;
  pending.tally.zeros = from.zeros;
  pending.tally.subnormals = from.subnormals;
  pending.tally.nans = from.nans;
  pending.tally.infinities = from.infinities;
  pending.tally.first = from.first;
}

bool Slots::claim(Pending& pending, bool captured) {
  const std::lock_guard lock(mutex_);
  pending.captured = captured;
  if (captured) {
    if (free_.empty()) return false;
    pending.slot = free_.back();
    free_.pop_back();
    pending.run = static_cast<u32>(records_[pending.slot].ended);
    in_graph_[pending.slot] = true;
    owners_[pending.slot] = &pending;
    return true;
  }
  for (u32 tries = 0; tries < ring_; ++tries) {
    const u32 slot = next_;
    next_ = next_ + 1 == ring_ ? 0 : next_ + 1;
    if (!arrived(slot)) continue;
    if (Pending* const owner = owners_[slot]; owner != nullptr) {
      read(*owner);
      owner->here = true;
    }
    pending.slot = slot;
    pending.run = ++runs_[slot];
    owners_[slot] = &pending;
    return true;
  }
  return false;
}

void Slots::give_up(Pending& pending) {
  const std::lock_guard lock(mutex_);
  owners_[pending.slot] = nullptr;
  if (pending.captured) {
    in_graph_[pending.slot] = false;
    free_.push_back(pending.slot);
  } else {
    --runs_[pending.slot];
  }
}

void Slots::let_go(Pending& pending) {
  const std::lock_guard lock(mutex_);
  if (owners_[pending.slot] != &pending) return;  // saved, and the slot is another's
  owners_[pending.slot] = nullptr;
  if (pending.captured && !in_graph_[pending.slot]) free_.push_back(pending.slot);
}

bool Slots::look(Pending& pending) {
  const std::lock_guard lock(mutex_);
  if (pending.here) return true;
  if (!pending.captured) {
    if (!arrived(pending.slot)) return false;
    read(pending);
    pending.here = true;
    return true;
  }
  const volatile Record& record = records_[pending.slot];
  const u64 ended = record.ended;
  std::atomic_thread_fence(std::memory_order_acquire);
  if (static_cast<u32>(ended) == pending.run) return false;  // not replayed yet
  read(pending);
  std::atomic_thread_fence(std::memory_order_acquire);
  // Otherwise the next replay is writing: its numbers will be whole in a moment.
  pending.here = record.started == ended && record.ended == ended;
  return pending.here;
}

void Slots::graph_gone(u32 slot) {
  const std::lock_guard lock(mutex_);
  in_graph_[slot] = false;
  if (owners_[slot] == nullptr) free_.push_back(slot);
}

}  // namespace pm::cuda
