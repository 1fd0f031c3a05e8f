// Finds any of some hundred texts in a pass over every byte, at the speed of memory.
//
// A text of n bytes has n-3 windows of four. Of each text a run of `stride` windows side by side,
// the rarest, goes into a table; whatever the place, one of them begins at a multiple of `stride`,
// so that only those places are looked at: one load, one multiplication and one bit of a table that
// stays in the first-level cache. It needs no vector instructions, and so no dispatch.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace pm {

class LiteralFilter {
 public:
  static constexpr std::size_t kWindow = 4;
  static constexpr std::size_t kMostStride = 4;

  // Texts of at least four bytes; of seven and more, the pass is as fast as it can be.
  explicit LiteralFilter(std::vector<std::string> texts);

  const std::vector<std::string>& texts() const { return texts_; }

  // Calls found(text, begin) for each place in `data` where a text stands whole. Of two texts that
  // overlap, the later one may come first; else they come from left to right.
  template <class Found>
  void scan(std::string_view data, Found&& found) const;

 private:
  static constexpr unsigned kBits = 16;
  struct Entry {
    std::uint32_t window;
    std::uint32_t text;
    std::uint32_t offset;  // of the window in the text
  };

  static std::uint32_t load(const char* at) {
    std::uint32_t value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  static std::uint32_t slot(std::uint32_t window) { return (window * 0x9E3779B1U) >> (32 - kBits); }
  bool marked(std::uint32_t at) const { return (marks_[at / 64] >> (at % 64)) & 1; }

  template <class Found>
  void confirm(std::string_view data, std::size_t at, Found& found) const;

  std::vector<std::string> texts_;
  std::size_t stride_ = 1;
  std::array<std::uint64_t, (1U << kBits) / 64> marks_{};
  std::vector<Entry> entries_;  // by window: few places are marked, so that a search will do
};

// Where in a text the `count` windows of some size stand, side by side, that are together the least
// common in logs.
std::size_t rarest_run(std::string_view text, std::size_t size, std::size_t count);

// Which of some texts, by their numbers, stand in the data. They may be of any length above 0.
std::vector<std::uint32_t> texts_in(const std::vector<std::string>& texts, std::string_view data);

template <class Found>
void LiteralFilter::confirm(std::string_view data, std::size_t at, Found& found) const {
  const std::uint32_t window = load(data.data() + at);
  auto entry = std::ranges::lower_bound(entries_, window, {}, &Entry::window);
  for (; entry != entries_.end() && entry->window == window; ++entry) {
    if (entry->offset > at) continue;
    const std::string& text = texts_[entry->text];
    const std::size_t begin = at - entry->offset;
    if (text.size() > data.size() - begin) continue;
    if (std::memcmp(data.data() + begin, text.data(), text.size()) == 0) found(entry->text, begin);
  }
}

template <class Found>
void LiteralFilter::scan(std::string_view data, Found&& found) const {
  if (entries_.empty() || data.size() < kWindow) return;
  const std::size_t last = data.size() - kWindow;
  const char* const bytes = data.data();
  const auto any_of_eight = [&](std::size_t from) {
    std::uint64_t any = 0;
    for (std::size_t i = 0; i < 8; ++i) {
      const std::uint32_t bit = slot(load(bytes + from + i * stride_));
      any |= marks_[bit / 64] >> (bit % 64);
    }
    return (any & 1) != 0;
  };
  std::size_t at = 0;
  for (; at + 7 * stride_ <= last; at += 8 * stride_) {
    if (!any_of_eight(at)) [[likely]]
      continue;
    for (std::size_t i = 0; i < 8; ++i) {
      const std::size_t place = at + i * stride_;
      if (marked(slot(load(bytes + place)))) confirm(data, place, found);
    }
  }
  // The rest together with some that were looked at: one text may begin at them, too.
  if (last >= 7 * stride_ && !any_of_eight(last - 7 * stride_)) [[likely]]
    return;
  for (; at <= last; at += stride_) {
    if (marked(slot(load(bytes + at)))) confirm(data, at, found);
  }
}

}  // namespace pm
