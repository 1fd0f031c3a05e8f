// Which memory a slim core keeps: address ranges in whole pages, and the watch that collects them.
#pragma once

#include <cstdint>
#include <unordered_set>
#include <vector>

#include "elfcore/core.h"

namespace pm::slim {

// The unit in which memory is kept. Kernels with larger pages dump multiples of it.
inline constexpr std::uint64_t kPage = 4096;

// The next page boundary; the last one for what lies behind it.
inline std::uint64_t page_up(std::uint64_t value) {
  return value > UINT64_MAX - (kPage - 1) ? UINT64_MAX & ~(kPage - 1)
                                          : (value + kPage - 1) & ~(kPage - 1);
}

struct Range {
  std::uint64_t start = 0;
  std::uint64_t end = 0;  // first byte behind it
  bool operator==(const Range&) const = default;
};

class PageSet {
 public:
  // Every page that holds part of [address, address + size).
  void add(std::uint64_t address, std::uint64_t size);
  // Sorted, without overlaps or neighbours.
  std::vector<Range> ranges() const;
  // Bytes that may have been added so far; ranges added twice count twice.
  std::uint64_t upper_bound() const noexcept { return bulk_ + kPage * pages_.size(); }

 private:
  std::unordered_set<std::uint64_t> pages_;  // numbers of single pages
  std::vector<Range> ranges_;
  std::uint64_t bulk_ = 0;
  std::uint64_t last_ = UINT64_MAX;  // the page added last: reads come in clusters
};

// Remembers what is read, up to a limit that honest processes do not reach.
class Recorder final : public elfcore::MemoryWatch {
 public:
  static constexpr std::uint64_t kLimit = std::uint64_t{256} << 20;

  // `fetcher` is asked first, and may be null.
  Recorder(PageSet& pages, elfcore::MemoryWatch* fetcher) : pages_(pages), fetcher_(fetcher) {}

  std::uint64_t on_read(std::uint64_t address, std::uint64_t size) noexcept override;
  bool full() const noexcept { return full_; }

 private:
  PageSet& pages_;
  elfcore::MemoryWatch* fetcher_;
  bool full_ = false;
};

// Has a core watched as long as it lives.
class Watching {
 public:
  Watching(elfcore::Core& core, elfcore::MemoryWatch* watch) : core_(core), before_(core.watch()) {
    core.set_watch(watch);
  }
  ~Watching() { core_.set_watch(before_); }
  Watching(const Watching&) = delete;
  Watching& operator=(const Watching&) = delete;

 private:
  elfcore::Core& core_;
  elfcore::MemoryWatch* before_;
};

}  // namespace pm::slim
