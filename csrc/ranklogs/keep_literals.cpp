#include "ranklogs/keep_literals.h"

#include <stdexcept>

namespace pm::ranklogs {
namespace {

constexpr std::string_view kNames[] = {"traceback", "fatal", "frames", "launcher", "comm",  "nccl",
                                       "startup",   "world", "trail",  "link",     "error", "mark"};
static_assert(std::size(kNames) == static_cast<std::size_t>(Kind::kCount));

std::vector<std::string> texts_of(std::span<const KeepLiteral> literals) {
  if (literals.size() > KeepLiterals::kMost) {
    throw std::invalid_argument("too many texts to keep lines for");
  }
  std::vector<std::string> texts;
  for (const KeepLiteral& literal : literals) texts.push_back(literal.text);
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
  for (const KeepLiteral& literal : literals) kinds_.push_back(literal.kind);
}

Kinds KeepLiterals::find(std::string_view text) const {
  Kinds kinds = 0;
  filter_.scan(text, [&](std::uint32_t literal, std::size_t) { kinds |= bit(kinds_[literal]); });
  return kinds;
}

}  // namespace pm::ranklogs
