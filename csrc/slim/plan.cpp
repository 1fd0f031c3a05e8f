#include "slim/plan.h"

#include <algorithm>

namespace pm::slim {
namespace {

using elfcore::Core;
using elfcore::Segment;
using elfcore::ThreadState;

constexpr std::uint64_t kBelowStack = 64 << 10, kStack = 24u << 20, kStackEnd = 8u << 20;
constexpr std::uint64_t kAroundTls = 64 << 10;
constexpr std::uint64_t kFileData = 32u << 20;  // of one writable file mapping
constexpr std::uint64_t kHeader = 64 << 10;     // of one that is not
constexpr std::uint64_t kNeeded = 1u << 30;     // of all that is needed for certain
constexpr std::uint64_t kNeighbour = 4u << 20;  // zero-initialised data behind a file mapping

bool is_covered(const std::vector<Range>& ranges, const Segment& piece) {
  const auto above =
      std::upper_bound(ranges.begin(), ranges.end(), piece.start,
                       [](std::uint64_t value, const Range& range) { return value < range.start; });
  return above != ranges.begin() && std::prev(above)->end >= piece.start + piece.dumped;
}

class Planner {
 public:
  explicit Planner(const Core& core) : core_(core) {}

  Plan plan(std::uint64_t room);

 private:
  void add_threads();
  void add_mappings();
  void add(std::uint64_t address, std::uint64_t size);
  std::vector<std::size_t> others() const;

  const Core& core_;
  PageSet needed_;
  std::uint64_t left_ = kNeeded;
};

void Planner::add(std::uint64_t address, std::uint64_t size) {
  size = std::min(size, left_);
  needed_.add(address, size);
  left_ -= size;
}

void Planner::add_threads() {
  for (const ThreadState& thread : core_.threads()) {
    const std::uint64_t sp = thread.registers.sp();
    const Segment* segment = core_.segment_at(sp);
    if (!segment || segment->dumped == 0) segment = core_.segment_above(sp);
    if (segment) {
      const std::uint64_t at = std::max(segment->start, sp - std::min(sp, kBelowStack));
      add(at, std::min(segment->end() - at, kStack + kBelowStack));
      const std::uint64_t tail = std::min(segment->end() - at, kStackEnd);
      add(segment->end() - tail, tail);
    }
    if (thread.tls != 0) add(thread.tls - std::min(thread.tls, kAroundTls), 2 * kAroundTls);
  }
  // The main stack's top: arguments, environment, auxiliary vector.
  for (const std::uint64_t type : {std::uint64_t{25}, std::uint64_t{31}}) {  // AT_RANDOM, AT_EXECFN
    const auto address = core_.auxv(type);
    const Segment* const segment = address ? core_.segment_at(*address) : nullptr;
    if (!segment) continue;
    const std::uint64_t tail = std::min(segment->size, kStackEnd);
    add(segment->end() - tail, tail);
  }
}

void Planner::add_mappings() {
  std::uint64_t file_end = 0;
  for (const Segment& segment : core_.segments()) {
    const auto* const file = core_.file_at(segment.start);
    const bool writable = (segment.flags & elfcore::kWrite) != 0;
    if (file) {
      // Relocated pages, made read-only again, are dumped whole; of other mappings the first page.
      const bool code = (segment.flags & elfcore::kExecute) != 0;
      add(segment.start, std::min(segment.dumped, code ? kHeader : kFileData));
      file_end = segment.end();
    } else if (!writable) {
      add(segment.start, std::min(segment.dumped, kHeader));
    } else if (segment.start == file_end) {
      add(segment.start, std::min(segment.dumped, kNeighbour));
    }
  }
}

// Pieces of the core, the smallest first; of the same size the lower ones, where the heap is.
std::vector<std::size_t> Planner::others() const {
  const auto& pieces = core_.pieces();
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].dumped > 0) order.push_back(i);
  }
  const auto rank = [&](std::size_t i) {
    // Code and other people's files can be had from elsewhere, and are seldom of use.
    const bool own = (pieces[i].flags & elfcore::kWrite) && !core_.file_at(pieces[i].start);
    return std::pair(!own, pieces[i].dumped);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return rank(a) < rank(b); });
  return order;
}

Plan Planner::plan(std::uint64_t room) {
  add_threads();
  add_mappings();
  const std::vector<Range> needed = needed_.ranges();
  const auto& pieces = core_.pieces();
  std::vector<std::uint64_t> share(pieces.size(), 0);  // of each piece, what has room
  for (const std::size_t i : others()) {
    if (is_covered(needed, pieces[i])) continue;  // it needs no room here
    share[i] = std::min(pieces[i].dumped, room);
    room -= share[i];
  }
  Plan plan;
  std::size_t next = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Segment& piece = pieces[i];
    const std::uint64_t end = piece.start + piece.dumped, shared = piece.start + share[i];
    std::uint64_t at = piece.start;
    const auto take = [&](std::uint64_t to, bool is_needed) {
      if (to <= at) return;
      plan.parts.push_back({{at, to}, piece.offset + (at - piece.start), is_needed});
      at = to;
    };
    while (next < needed.size() && needed[next].end <= piece.start) ++next;
    for (std::size_t n = next; n < needed.size() && needed[n].start < end; ++n) {
      take(std::min(std::max(needed[n].start, at), shared), false);
      const std::uint64_t from = std::max(needed[n].start, at);
      plan.left_out += from - at;
      at = from;
      take(std::min(needed[n].end, end), true);
    }
    take(shared, false);
    plan.left_out += end - std::min(end, at);
  }
  std::stable_sort(plan.parts.begin(), plan.parts.end(),
                   [](const Planned& a, const Planned& b) { return a.offset < b.offset; });
  return plan;
}

}  // namespace

Plan make_plan(const Core& core, std::uint64_t room) {
  if (!core.slim()) return Planner(core).plan(room);
  Plan plan;  // somebody has chosen already
  for (const Segment& piece : core.pieces()) {
    if (piece.dumped == 0) continue;
    plan.parts.push_back({{piece.start, piece.start + piece.dumped}, piece.offset, true});
  }
  std::stable_sort(plan.parts.begin(), plan.parts.end(),
                   [](const Planned& a, const Planned& b) { return a.offset < b.offset; });
  return plan;
}

}  // namespace pm::slim
