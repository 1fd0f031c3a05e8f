#include "ranklogs/links.h"

#include <algorithm>
#include <utility>

#include "ranklogs/clean.h"
#include "ranklogs/words.h"

namespace pm::ranklogs {
namespace {

constexpr std::size_t kMostLinks = 200'000;
constexpr std::size_t kLongestHow = 48;
constexpr std::size_t kLongestHost = 80;

// A number of at most nine digits at the start of `text`, which moves on; -1 where there is none.
std::int64_t number_of(std::string_view& text) noexcept {
  std::int64_t value = -1;
  std::size_t size = 0;
  for (; size < text.size() && size < 9 && is_digit(text[size]); ++size) {
    value = std::max<std::int64_t>(value, 0) * 10 + (text[size] - '0');
  }
  text.remove_prefix(size);
  return value;
}

// Behind "[3]" or "[b2000]", the device or the bus.
bool skip_device(std::string_view& text) noexcept {
  if (!text.starts_with('[')) return false;
  const std::size_t end = text.find(']');
  if (end == std::string_view::npos || end > 20) return false;
  text.remove_prefix(end + 1);
  return true;
}

// The host of "node1:4711:4802 [0] NCCL INFO …": what stands before the last two numbers.
std::string_view host_of(std::string_view line, std::size_t at) noexcept {
  std::string_view head = line.substr(0, at);
  const std::size_t bracket = head.rfind(" [");
  if (bracket == std::string_view::npos) return {};
  head = head.substr(0, bracket);
  for (int i = 0; i < 2; ++i) {
    const std::size_t colon = head.rfind(':');
    if (colon == std::string_view::npos) return {};
    head = head.substr(0, colon);
  }
  const std::size_t space = head.find_last_of(" \t");
  if (space != std::string_view::npos) head.remove_prefix(space + 1);
  return head.substr(0, kLongestHost);
}

}  // namespace

void Links::take(std::string_view line, std::uint64_t number) {
  const std::size_t at = line.find(kNcclLink);
  if (at == std::string_view::npos) return;
  const std::size_t colon = line.find(" : ", at);
  const std::size_t via = line.find(kNcclVia, at);
  if (colon == std::string_view::npos || via == std::string_view::npos || via < colon) return;
  std::string_view pair = line.substr(colon + 3);
  const std::int64_t from = number_of(pair);
  if (from < 0 || !skip_device(pair) || !pair.starts_with(kNcclTo)) return;
  pair.remove_prefix(kNcclTo.size());
  const std::int64_t to = number_of(pair);
  if (to < 0) return;
  const std::string_view all = line.substr(via + kNcclVia.size(), kLongestHow);
  std::string how(all.substr(0, all.find_first_of(" \t\r")));
  if (how.empty()) return;
  if (line.substr(colon, via - colon).ends_with(kNcclReceive)) {
    how.append(" ").append(kNcclReceive);
  }
  const std::string_view host = host_of(line, at);
  key_.assign(host);
  key_ += ' ';
  key_ += how;
  key_.append(reinterpret_cast<const char*>(&from), sizeof from);
  key_.append(reinterpret_cast<const char*>(&to), sizeof to);
  const auto found = known_.find(key_);
  if (found != known_.end()) {
    ++rows_[found->second].count;
    return;
  }
  if (rows_.size() >= kMostLinks) return;
  known_.emplace(key_, rows_.size());
  rows_.push_back({std::string(host), std::move(how), from, to, 1, number});
}

std::vector<Link> Links::rows() { return std::move(rows_); }

bool is_trail(std::string_view line) noexcept {
  std::size_t at = line.find(kNcclInfo);
  if (at == std::string_view::npos) return false;
  const std::size_t arrow = line.find(kNcclTo, at);
  if (arrow == std::string_view::npos) return false;
  at = line.find(kNcclSource, at);
  const std::size_t result = arrow + kNcclTo.size();
  return at < arrow && result < line.size() && is_digit(line[result]);
}

}  // namespace pm::ranklogs
