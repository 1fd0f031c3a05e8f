#include "slim/pages.h"

#include <algorithm>

namespace pm::slim {
namespace {

constexpr std::uint64_t kSinglePages = 4;  // a longer range is kept as one

}  // namespace

void PageSet::add(std::uint64_t address, std::uint64_t size) {
  if (size == 0) return;
  const std::uint64_t end = size > UINT64_MAX - address ? UINT64_MAX : address + size;
  const std::uint64_t first = address / kPage, behind = page_up(end) / kPage;
  if (behind <= first) return;
  if (behind - first > kSinglePages) {
    ranges_.push_back({first * kPage, behind * kPage});
    bulk_ += (behind - first) * kPage;
    return;
  }
  for (std::uint64_t page = first; page < behind; ++page) {
    if (page == last_) continue;
    pages_.insert(page);
    last_ = page;
  }
}

std::vector<Range> PageSet::ranges() const {
  std::vector<Range> all = ranges_;
  all.reserve(all.size() + pages_.size());
  for (const std::uint64_t page : pages_) all.push_back({page * kPage, (page + 1) * kPage});
  std::sort(all.begin(), all.end(),
            [](const Range& a, const Range& b) { return a.start < b.start; });
  std::vector<Range> merged;
  for (const Range& range : all) {
    if (!merged.empty() && range.start <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, range.end);
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

std::uint64_t Recorder::on_read(std::uint64_t address, std::uint64_t size) noexcept {
  if (pages_.upper_bound() < kLimit) {
    try {
      pages_.add(address, std::min(size, kLimit));
    } catch (...) {  // out of memory
      full_ = true;
    }
  } else {
    full_ = true;
  }
  return fetcher_ ? fetcher_->on_read(address, size) : UINT64_MAX;
}

}  // namespace pm::slim
