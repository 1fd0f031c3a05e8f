#include "unwind/split_function.h"

#include <algorithm>
#include <vector>

#include "unwind/frame_tables.h"

namespace pm::unwind {
namespace {

// The largest function of CPython is its evaluator, with about 64 KiB.
constexpr std::uint64_t kMaxCode = 1u << 20;
constexpr std::size_t kMinJumps = 2;

std::uint64_t moved(std::uint64_t address, std::int64_t by) {
  return address + static_cast<std::uint64_t>(by);
}

// JMP and Jcc with a displacement of 32 bits (Intel SDM volume 2), at any byte: what is none in
// truth rarely leads into other code.
void add_jumps_x86(Bytes code, std::uint64_t start, std::vector<std::uint64_t>& targets) {
  for (std::uint64_t i = 0; i + 5 <= code.size(); ++i) {
    std::uint64_t at = i + 1;
    if (code[i] == 0x0f && (code[i + 1] & 0xf0) == 0x80) {
      at = i + 2;
    } else if (code[i] != 0xe9) {
      continue;
    }
    const auto distance = load<std::int32_t>(code, at);
    if (distance) targets.push_back(moved(start + at + 4, *distance));
  }
}

// B, B.cond, CBZ and CBNZ (Arm ARM, DDI 0487, section C4.1); TBZ does not reach far.
void add_jumps_aarch64(Bytes code, std::uint64_t start, std::vector<std::uint64_t>& targets) {
  for (std::uint64_t i = 0; i + 4 <= code.size(); i += 4) {
    const auto word = load<std::uint32_t>(code, i).value_or(0);
    if ((word & 0xfc000000) == 0x14000000) {
      const auto words = static_cast<std::int32_t>(word << 6) >> 6;
      targets.push_back(moved(start + i, std::int64_t{words} * 4));
    } else if ((word & 0xff000010) == 0x54000000 || (word & 0x7e000000) == 0x34000000) {
      const auto words = static_cast<std::int32_t>(word << 8) >> 13;
      targets.push_back(moved(start + i, std::int64_t{words} * 4));
    }
  }
}

}  // namespace

CodeRange cold_part(const elfcore::Image& image, const CodeRange& hot) {
  if (hot.end <= hot.start) return {};
  const Bytes code = clip(image.at(hot.start), 0, std::min(hot.end - hot.start, kMaxCode));
  std::vector<std::uint64_t> targets;
  if (image.machine() == EM_X86_64) {
    add_jumps_x86(code, hot.start, targets);
  } else {
    add_jumps_aarch64(code, hot.start, targets);
  }
  std::erase_if(targets, [&](std::uint64_t target) { return hot.contains(target); });
  std::sort(targets.begin(), targets.end());
  targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
  FrameTables tables(image);
  Budget budget;
  CodeRange best, entry;
  std::size_t most = 0, jumps = 0;
  for (const std::uint64_t target : targets) {
    if (!entry.contains(target)) {
      const auto found = tables.find(target, budget);
      entry = found ? CodeRange{found->start, found->end} : CodeRange{};
      jumps = 0;
    }
    if (entry.contains(target) && target != entry.start && ++jumps > most) {
      most = jumps;
      best = entry;
    }
  }
  return most >= kMinJumps ? best : CodeRange{};
}

}  // namespace pm::unwind
