// The kernels' own functions, run by this processor, block by block and thread by thread: what can
// be tested of them where no GPU is. Not part of what is shipped.
#pragma once

#include <span>
#include <vector>

#include "cuda/plan.h"

namespace pm::cuda {

// What a launch of `blocks` blocks over these plans, which all have pieces, would find.
inline std::vector<Tally> emulate_table(std::span<const Plan> plans, u32 blocks) {
  std::vector<Entry> entries;
  u32 pieces = 0;
  for (const Plan& plan : plans) {
    entries.push_back(plan.entry);
    entries.back().first_piece = pieces;
    pieces += plan.pieces;
  }
  const auto count = static_cast<u32>(entries.size());
  std::vector<Tally> found(count, nothing());
  std::vector<u32> done(count, 0);
  for (u32 block = 0; block < blocks; ++block) {
    Share share = share_of(count, pieces, block, blocks);
    while (share.begin < share.end) {
      const u32 at = entry_of(entries.data(), count, share.begin);
      const Entry& entry = entries[at];
      const u32 next = at + 1 < count ? entries[at + 1].first_piece : pieces;
      const Share here{share.begin - entry.first_piece, lesser(share.end, next) - entry.first_piece,
                       share.stride};
      with_kind(format_of(entry), [&](auto kind) {
        for (u32 thread = 0; thread < kThreads; ++thread) {
          merge(pass_entry<decltype(kind)>(entry, here, thread, &found[at]), found[at]);
        }
      });
      done[at] += pieces_in(here);
      share.begin = lesser(share.end, next);
    }
  }
  for (u32 i = 0; i < count; ++i) {
    if (done[i] != plans[i].pieces) return {};  // a piece was left out or passed twice
  }
  return found;
}

inline Tally emulate_shaped(const Plan& plan, u32 threads) {
  Tally found = nothing();
  for (u32 i = 0; i < threads; ++i) {
    merge(pass_apart(plan.entry, plan.shape, i, threads), found);
  }
  return found;
}

}  // namespace pm::cuda
