#include "unwind/go_names.h"

namespace pm::unwind {
namespace {

// runtime/symtab.go: pcHeader, whose magic says the version (debug/gosym, pclntab.go).
constexpr std::uint32_t kGo118 = 0xfffffff0, kGo120 = 0xfffffff1;
constexpr std::size_t kCount = 8, kText = 24, kNames = 32, kFunctions = 64;
constexpr std::uint64_t kRow = 8;
constexpr std::uint8_t kRank = 4;  // of a local function

}  // namespace

GoNames::GoNames(const elfcore::Image& image) {
  auto section = image.section(".gopclntab");
  if (!section) section = image.section(".data.rel.ro.gopclntab");
  const auto code = image.section(".text");
  if (!section || !code) return;
  const Bytes all = image.content(*section);
  const auto magic = load<std::uint32_t>(all, 0);
  if (magic != kGo118 && magic != kGo120) return;
  const auto word = [&](std::size_t at) { return load<std::uint64_t>(all, at).value_or(0); };
  if (word(kNames) >= all.size() || word(kFunctions) >= all.size()) return;
  names_ = all.subspan(word(kNames));
  table_ = all.subspan(word(kFunctions));
  text_ = word(kText) != 0 ? word(kText) : code->address;  // 0 in what is placed as it is loaded
  count_ = std::min<std::uint64_t>(word(kCount), table_.size() / kRow);
}

Match GoNames::find(std::uint64_t address) const noexcept {
  const auto entry = [&](std::uint64_t row) {
    return text_ + load<std::uint32_t>(table_, row * kRow).value_or(0);
  };
  std::uint64_t low = 0,
                high = count_;  // the first row behind the address; one more row is the end
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (entry(middle) <= address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == 0 || (low == count_ && address >= entry(count_))) return {};
  const auto function = load<std::uint32_t>(table_, (low - 1) * kRow + 4);
  const auto name = function ? load<std::uint32_t>(table_, *function + 4) : std::nullopt;
  if (!name || *name >= names_.size()) return {};
  return {names_, *name, entry(low - 1), kRank};
}

}  // namespace pm::unwind
