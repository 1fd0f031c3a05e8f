#include "ranklogs/keep_literals.h"

#include <cstring>
#include <limits>
#include <stdexcept>

namespace pm::ranklogs {
namespace {

constexpr std::string_view kNames[] = {"traceback", "fatal", "frames", "launcher", "comm",  "nccl",
                                       "startup",   "world", "trail",  "link",     "error", "mark"};
static_assert(std::size(kNames) == static_cast<std::size_t>(Kind::kCount));

// How often a character comes in text, roughly: what stands in rare ones is looked for.
int commonness(char c) noexcept {
  if (c == ' ') return 12;
  if (std::strchr("etaoinsr", c)) return 8;
  if (std::strchr("hldcum", c)) return 6;
  if (c >= 'a' && c <= 'z') return 4;
  return c >= '0' && c <= '9' ? 5 : 2;
}

std::size_t rarest_window(std::string_view text) noexcept {
  std::size_t best = 0;
  int least = std::numeric_limits<int>::max();
  for (std::size_t at = 0; at + 4 <= text.size(); ++at) {
    int sum = 0;
    for (std::size_t i = at; i < at + 4; ++i) sum += commonness(text[i]);
    if (sum < least) {
      least = sum;
      best = at;
    }
  }
  return best;
}

}  // namespace

std::optional<Kind> kind_of(std::string_view name) noexcept {
  for (std::size_t i = 0; i < std::size(kNames); ++i) {
    if (kNames[i] == name) return static_cast<Kind>(i);
  }
  return std::nullopt;
}

std::uint32_t KeepLiterals::hash(const char* at) noexcept {
  std::uint32_t word;
  std::memcpy(&word, at, sizeof word);
  return (word * 2654435761u) >> 16;
}

KeepLiterals::KeepLiterals(std::span<const KeepLiteral> literals) {
  if (literals.size() > kMost) throw std::invalid_argument("too many texts to keep lines for");
  entries_.push_back({{}, 0, Kind::kError, 0});  // index 0 means none
  for (const KeepLiteral& literal : literals) {
    if (literal.text.size() < 4) {
      throw std::invalid_argument("a text to keep lines for has less than four bytes");
    }
    const std::size_t window = rarest_window(literal.text);
    const std::uint32_t key = hash(literal.text.data() + window);
    entries_.push_back({literal.text, window, literal.kind, first_[key]});
    first_[key] = static_cast<std::uint16_t>(entries_.size() - 1);
    present_[key >> 6] |= std::uint64_t{1} << (key & 63);
  }
}

bool KeepLiterals::may_be(std::uint32_t key) const noexcept {
  return present_[key >> 6] >> (key & 63) & 1;
}

Kinds KeepLiterals::at(std::string_view text, std::size_t at) const noexcept {
  Kinds kinds = 0;
  const std::uint32_t key = hash(text.data() + at);
  if (!may_be(key)) return kinds;
  for (std::uint16_t i = first_[key]; i; i = entries_[i].next) {
    const Entry& entry = entries_[i];
    if (at < entry.window) continue;
    const std::size_t from = at - entry.window;
    if (text.size() - from >= entry.text.size() &&
        std::memcmp(text.data() + from, entry.text.data(), entry.text.size()) == 0) {
      kinds |= bit(entry.kind);
    }
  }
  return kinds;
}

Kinds KeepLiterals::find(std::string_view text) const noexcept {
  Kinds kinds = 0;
  if (text.size() < 4) return kinds;
  const char* const begin = text.data();
  const std::size_t last = text.size() - 3;
  std::size_t at = 0;
  for (; at + 4 <= last; at += 4) {  // four places with one branch: hardly any passes
    const bool any = may_be(hash(begin + at)) | may_be(hash(begin + at + 1)) |
                     may_be(hash(begin + at + 2)) | may_be(hash(begin + at + 3));
    if (!any) continue;
    for (std::size_t i = at; i < at + 4; ++i) kinds |= this->at(text, i);
  }
  for (; at < last; ++at) kinds |= this->at(text, at);
  return kinds;
}

}  // namespace pm::ranklogs
