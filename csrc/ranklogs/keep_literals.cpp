#include "ranklogs/keep_literals.h"

#include <algorithm>
#include <stdexcept>

#include "base/vector_bytes.h"

namespace pm::ranklogs {
namespace {

constexpr std::string_view kNames[] = {"traceback", "fatal", "frames", "launcher", "comm",  "nccl",
                                       "startup",   "world", "trail",  "link",     "error", "mark"};
static_assert(std::size(kNames) == static_cast<std::size_t>(Kind::kCount));

constexpr std::size_t kShortest = 6;  // of the texts of the filter

std::vector<std::string> texts_of(std::span<const KeepLiteral> literals) {
  if (literals.size() > KeepLiterals::kMost) {
    throw std::invalid_argument("too many texts to keep lines for");
  }
  std::vector<std::string> texts;
  for (const KeepLiteral& literal : literals) {
    if (literal.text.size() < LiteralFilter::kWindow) {
      throw std::invalid_argument("a text of under four bytes to look for");
    }
    if (literal.text.size() >= kShortest) texts.push_back(literal.text);
  }
  return texts;
}

}  // namespace

std::optional<Kind> kind_of(std::string_view name) noexcept {
  for (std::size_t i = 0; i < std::size(kNames); ++i) {
    if (kNames[i] == name) return static_cast<Kind>(i);
  }
  return std::nullopt;
}

KeepLiterals::KeepLiterals(std::span<const KeepLiteral> literals) : filter_(texts_of(literals)) {
  for (const KeepLiteral& literal : literals) {
    if (literal.text.size() >= kShortest) {
      kinds_.push_back(literal.kind);
      continue;
    }
    const std::size_t at = rarest_run(literal.text, 2, 1);
    Short& added = short_.emplace_back(Short{literal, {}, {}});
    added.first.fill(literal.text[at]);
    added.second.fill(literal.text[at + 1]);
  }
}

// Whether the two bytes of a short text stand anywhere: a look at each place, sixteen at a time.
bool KeepLiterals::may_hold_short(std::string_view text) const noexcept {
  constexpr std::size_t kStep = sizeof(Bytes);
  if (text.size() <= kStep) return true;
  const std::size_t last = text.size() - kStep - 1;
  Bytes seen{};
  const auto look = [&](std::size_t at) {
    const Bytes here = load(text.data() + at), next = load(text.data() + at + 1);
    for (const Short& one : short_) {
      seen |= Bytes(here == load(one.first.data())) & Bytes(next == load(one.second.data()));
    }
  };
  for (std::size_t at = 0; at < last; at += kStep) look(at);
  look(last);
  return any(seen);
}

Kinds KeepLiterals::find(std::string_view text) const {
  Kinds kinds = 0;
  filter_.scan(text, [&](std::uint32_t literal, std::size_t) { kinds |= bit(kinds_[literal]); });
  if (!may_hold_short(text)) return kinds;
  for (const Short& one : short_) {
    if (text.find(one.literal.text) != std::string_view::npos) kinds |= bit(one.literal.kind);
  }
  return kinds;
}

}  // namespace pm::ranklogs
