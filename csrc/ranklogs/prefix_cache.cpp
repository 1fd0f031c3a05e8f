#include "ranklogs/prefix_cache.h"

#include <algorithm>
#include <cstring>

namespace pm::ranklogs {
namespace {

constexpr unsigned kBits = 13;  // several times the ranks of most jobs
constexpr std::size_t kLongestHead = 160;

// Bytes up to the first blank that can end a prefix, with it; 0 where there is none. Ray's prefix
// has blanks inside of its parentheses, srun's may begin with some.
std::size_t head_size(std::string_view line) noexcept {
  line = line.substr(0, kLongestHead);
  std::size_t at = 0;
  if (line.starts_with('(')) {
    at = line.find(')');
  } else {
    while (at < line.size() && line[at] == ' ') ++at;
    at = line.find(' ', at);
    return at == std::string_view::npos ? 0 : at + 1;
  }
  if (at == std::string_view::npos || at + 1 >= line.size() || line[at + 1] != ' ') return 0;
  return at + 2;
}

std::size_t slot_of(std::string_view head) noexcept {
  std::uint64_t first = 0, last = 0;
  if (head.size() >= sizeof first) {
    std::memcpy(&first, head.data(), sizeof first);
    std::memcpy(&last, head.data() + head.size() - sizeof last, sizeof last);
  } else {
    std::memcpy(&first, head.data(), head.size());
    last = first;
  }
  const std::uint64_t mixed = (first ^ (last * 0x9e3779b97f4a7c15u)) + head.size();
  return (mixed * 0xd6e8feb86659fd93u) >> (64 - kBits);
}

}  // namespace

const CachedPrefix* PrefixCache::likely(std::string_view line) const noexcept {
  if (slots_.empty()) return nullptr;
  const std::size_t size = head_size(line);
  return size ? slots_[slot_of(line.substr(0, size))].get() : nullptr;
}

void PrefixCache::remember(std::string_view line, const Prefix& prefix, std::uint32_t writer) {
  if (!prefix.size || prefix.size != head_size(line)) return;
  if (slots_.empty()) slots_.resize(std::size_t{1} << kBits);
  const std::string_view text = line.substr(0, prefix.size);
  std::unique_ptr<CachedPrefix>& slot = slots_[slot_of(text)];
  if (!slot) slot = std::make_unique<CachedPrefix>();
  CachedPrefix& head = *slot;
  head = {std::string(text), prefix, writer};
  for (std::string_view* const view : {&head.prefix.host, &head.prefix.pod, &head.prefix.worker}) {
    if (view->data() < text.data() || view->data() >= text.data() + text.size()) continue;
    *view = std::string_view(head.text).substr(static_cast<std::size_t>(view->data() - text.data()),
                                               view->size());
  }
}

}  // namespace pm::ranklogs
