#include "base/literal_filter.h"

#include <algorithm>
#include <stdexcept>

namespace pm {
namespace {

// How common a byte is in logs, roughly: 0 for signs that hardly occur. Only the speed depends on
// it.
unsigned commonness(unsigned char byte) {
  constexpr std::string_view kLetters = "etaoinrslcdpmughf";
  if (byte == ' ') return 9;
  if (byte >= '0' && byte <= '9') return 8;
  const std::size_t rank = kLetters.find(static_cast<char>(byte));
  if (rank != std::string_view::npos) return 8 - static_cast<unsigned>(rank) / 4;
  if (byte >= 'a' && byte <= 'z') return 3;
  if (byte == '.' || byte == '-' || byte == ':' || byte == '/' || byte == '_' || byte == '=') {
    return 6;
  }
  return byte >= 'A' && byte <= 'Z' ? 3 : 2;
}

}  // namespace

std::size_t rarest_run(std::string_view text, std::size_t size, std::size_t count) {
  std::size_t best = 0;
  unsigned best_cost = ~0U;
  for (std::size_t start = 0; start + count + size - 1 <= text.size(); ++start) {
    unsigned cost = 0;
    for (std::size_t i = start; i < start + count; ++i) {
      unsigned window = 0;
      for (std::size_t j = i; j < i + size; ++j) {
        window += commonness(static_cast<unsigned char>(text[j]));
      }
      cost += window * window;
    }
    if (cost < best_cost) {
      best = start;
      best_cost = cost;
    }
  }
  return best;
}

LiteralFilter::LiteralFilter(std::vector<std::string> texts) : texts_(std::move(texts)) {
  std::size_t shortest = kWindow + kMostStride - 1;
  for (const std::string& text : texts_) shortest = std::min(shortest, text.size());
  if (shortest < kWindow) throw std::invalid_argument("a text of under four bytes to look for");
  stride_ = shortest - kWindow + 1;
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    const std::size_t start = rarest_run(texts_[i], kWindow, stride_);
    for (std::size_t offset = start; offset < start + stride_; ++offset) {
      const std::uint32_t window = load(texts_[i].data() + offset);
      entries_.push_back(
          {window, static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(offset)});
      marks_[slot(window) / 64] |= std::uint64_t{1} << (slot(window) % 64);
    }
  }
  std::stable_sort(entries_.begin(), entries_.end(),
                   [](const Entry& a, const Entry& b) { return a.window < b.window; });
}

std::vector<std::uint32_t> texts_in(const std::vector<std::string>& texts, std::string_view data) {
  std::vector<bool> stands(texts.size(), false);
  std::vector<std::string> longer;
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].size() < LiteralFilter::kWindow) {
      stands[i] = !texts[i].empty() && data.find(texts[i]) != std::string_view::npos;
    } else {
      longer.push_back(texts[i]);
      numbers.push_back(i);
    }
  }
  if (!longer.empty()) {
    LiteralFilter(std::move(longer)).scan(data, [&](std::size_t text, std::size_t) {
      stands[numbers[text]] = true;
    });
  }
  std::vector<std::uint32_t> found;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (stands[i]) found.push_back(static_cast<std::uint32_t>(i));
  }
  return found;
}

}  // namespace pm
