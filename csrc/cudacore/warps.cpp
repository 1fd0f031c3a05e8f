#include "cudacore/warps.h"

#include <algorithm>

namespace pm::cudacore {
namespace {

// What hardware has at most is well below.
constexpr std::uint32_t kMaxProcessors = 4096;
constexpr std::uint32_t kMaxBlocks = 256;
constexpr std::uint32_t kMaxWarps = 256;
constexpr std::uint32_t kMaxLanes = 32;
constexpr std::uint32_t kMaxCalls = 64;
// Of what differs in a real dump there are dozens; a crafted one makes all lanes differ.
constexpr std::size_t kMaxStands = 1 << 16;
constexpr std::size_t kMaxFaults = 4096;
constexpr std::size_t kShownStands = 256;
constexpr std::size_t kShownFaults = 64;
constexpr std::size_t kSome = 4;

Three three(const Row& row, std::size_t at) {
  return {row.u32(at), row.u32(at + 4), row.u32(at + 8)};
}

// An order of trust: what a lane says of itself is exact.
bool before(const Fault& a, const Fault& b) {
  return static_cast<int>(a.source) < static_cast<int>(b.source);
}

}  // namespace

std::size_t Warps::KeyHash::operator()(const StandKey& key) const noexcept {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::uint64_t word : key) hash = (hash ^ word ^ word >> 29) * 0x9e3779b97f4a7c15;
  return hash ^ hash >> 32;
}

void Warps::read() {
  for (std::size_t i = 0; i < core_.grids.size(); ++i) {
    grid_of_.try_emplace({core_.grids[i].device, core_.grids[i].id}, i);
  }
  for (const std::uint32_t table : sections_.of(Kind::sms)) {
    const std::uint32_t device = sections_.at(table).info;
    const std::uint32_t count = sections_.rows(table, kMaxProcessors);
    for (std::uint32_t i = 0; i < count; ++i) read_processor(table, i, device);
  }
  finish();
}

void Warps::read_processor(std::uint32_t table, std::uint32_t index, std::uint32_t device) {
  const Row row = sections_.row(table, index);
  Processor processor{device, row.u32(0), row.u32(8), row.u32(12) != 0, row.u64(16), {}, {}, false};
  processor.detail = sections_.text(row.u64(40));
  if (row.u32(24) != 0) processor.target = three(row, 28);
  if (const auto blocks = sections_.table(table, index, Kind::blocks)) {
    const std::uint32_t count = sections_.rows(*blocks, kMaxBlocks);
    for (std::uint32_t i = 0; i < count; ++i) read_block(*blocks, i, processor);
  }
  if (processor.exception != 0 && !processor.told) add_processor_fault(processor);
}

void Warps::read_block(std::uint32_t table, std::uint32_t index, Processor& processor) {
  const Row row = sections_.row(table, index);
  Where where{processor.device, processor.id, 0, 0, row.u64(0), three(row, 8), {}};
  ++block_number_;
  ++core_.blocks;
  count_for_grid(where, true);
  const auto warps = sections_.table(table, index, Kind::warps);
  if (!warps) return;
  const std::uint32_t count = sections_.rows(*warps, kMaxWarps);
  for (std::uint32_t i = 0; i < count; ++i) {
    read_warp({table, index, *warps, i, 0, 0, 0}, where, processor);
  }
}

void Warps::read_warp(LaneRows rows, Where where, Processor& processor) {
  const Row row = sections_.row(rows.warp_table, rows.warp);
  const Warp warp{row.u32(12),      row.u32(16),      row.u32(48),
                  row.u32(20) != 0, row.u32(24) != 0, row.u64(0)};
  where.warp = row.u32(8);
  rows.registers = row.u32(32);
  ++warp_number_;
  ++core_.warps;
  count_for_grid(where, false);
  const auto lanes = sections_.table(rows.warp_table, rows.warp, Kind::lanes);
  if (!lanes) return;
  rows.lane_table = *lanes;
  const std::uint32_t count = sections_.rows(*lanes, kMaxLanes);
  StandKey key;
  for (std::uint32_t i = 0; i < count; ++i) {
    const Row lane = sections_.row(*lanes, i);
    const std::uint32_t number = lane.u32(16);
    if (number >= kMaxLanes || !(warp.valid >> number & 1)) continue;
    const bool active = warp.active >> number & 1;
    ++core_.lanes;
    rows.lane = i;
    where.lane = number;
    where.thread = three(lane, 20);
    const std::uint64_t pc = lane.u64(0);
    key = {where.device, where.grid, pc};
    if (const auto calls = sections_.table(*lanes, i, Kind::backtrace)) {
      const std::uint32_t depth = sections_.rows(*calls, kMaxCalls);
      for (std::uint32_t level = 0; level < depth; ++level) {
        // A return address of zero ends the calls.
        if (const std::uint64_t back = sections_.row(*calls, level).u64(8)) key.push_back(back);
      }
    }
    std::uint32_t code = lane.u32(32);
    Source source = Source::lane;
    if (code == 0 && warp.has_error && active && processor.exception != 0) {
      code = processor.exception;
      source = Source::warp;
    } else if (code == 0 && warp.broken && active) {
      source = Source::trap;
    }
    const bool failed = code != 0 || source == Source::trap;
    add_stand(key, where, warp, failed);
    if (!failed) continue;
    if (code == processor.exception) processor.told = true;
    const bool own = source != Source::trap && warp.has_error && active;
    add_fault(source, code, own ? warp.error_pc : pc, key, where, rows, processor);
  }
}

void Warps::add_stand(const StandKey& key, const Where& where, const Warp& warp, bool failed) {
  auto found = stand_of_.find(key);
  if (found == stand_of_.end()) {
    if (stands_.size() >= kMaxStands) {
      ++lanes_left_out_;
      return;
    }
    found = stand_of_.emplace(key, stands_.size()).first;
    Stand stand;
    stand.device = where.device;
    stand.grid = where.grid;
    for (std::size_t i = 2; i < key.size(); ++i) stand.frames.push_back({key[i], {}});
    stands_.push_back({std::move(stand), {}});
  }
  auto& [stand, seen] = stands_[found->second];
  ++stand.lanes;
  stand.active += warp.active >> where.lane & 1;
  stand.in_system += warp.in_system >> where.lane & 1;
  stand.failed += failed;
  if (seen.warp != warp_number_) {
    ++stand.warps;
    if (stand.some.size() < kSome) stand.some.push_back(where);
  }
  if (seen.block != block_number_) ++stand.blocks;
  seen = {warp_number_, block_number_};
}

void Warps::add_fault(Source source, std::uint32_t code, std::uint64_t pc, const StandKey& key,
                      const Where& where, const LaneRows& rows, const Processor& processor) {
  const std::vector<std::uint64_t> which = {where.device, where.grid, code, pc,
                                            static_cast<std::uint64_t>(source)};
  auto found = fault_of_.find(which);
  if (found == fault_of_.end()) {
    if (faults_.size() >= kMaxFaults) return;
    found = fault_of_.emplace(which, faults_.size()).first;
    Fault fault;
    fault.source = source;
    fault.code = code;
    fault.pc = pc;
    fault.has_pc = fault.has_thread = true;
    fault.first = where;
    if (code != 0 && code == processor.exception) {
      fault.detail = processor.detail;
      fault.target_block = processor.target;
    }
    fault.frames.push_back({pc, {}});
    for (std::size_t i = 3; i < key.size(); ++i) fault.frames.push_back({key[i], {}});
    faults_.push_back({std::move(fault), {}, rows});
  }
  auto& [fault, seen, first_rows] = faults_[found->second];
  ++fault.lanes;
  if (seen.warp != warp_number_) ++fault.warps;
  if (seen.block != block_number_) ++fault.blocks;
  seen = {warp_number_, block_number_};
}

// The warps that failed have left the multiprocessor: it alone knows.
void Warps::add_processor_fault(const Processor& processor) {
  if (faults_.size() >= kMaxFaults) return;
  Fault fault;
  fault.source = Source::sm;
  fault.code = processor.exception;
  fault.has_pc = processor.has_pc;
  fault.pc = processor.has_pc ? processor.pc : 0;
  fault.first.device = processor.device;
  fault.first.sm = processor.id;
  fault.detail = processor.detail;
  fault.target_block = processor.target;
  if (fault.has_pc) fault.frames.push_back({fault.pc, {}});
  faults_.push_back({std::move(fault), {}, {}});
}

void Warps::count_for_grid(const Where& where, bool block) {
  const auto found = grid_of_.find({where.device, where.grid});
  if (found == grid_of_.end()) return;
  Grid& grid = core_.grids[found->second];
  ++(block ? grid.blocks : grid.warps);
}

void Warps::finish() {
  std::stable_sort(faults_.begin(), faults_.end(),
                   [](const FaultRows& a, const FaultRows& b) { return before(a.fault, b.fault); });
  if (!faults_.empty() && faults_.front().fault.has_thread) first_lane_ = faults_.front().rows;
  if (faults_.size() > kShownFaults) {
    core_.problems.add("exceptions", "of " + std::to_string(faults_.size()) +
                                         " different ones the first " +
                                         std::to_string(kShownFaults) + " are told");
    faults_.erase(faults_.begin() + kShownFaults, faults_.end());
  }
  for (FaultRows& row : faults_) core_.faults.push_back(std::move(row.fault));
  std::stable_sort(stands_.begin(), stands_.end(), [](const StandRows& a, const StandRows& b) {
    return a.stand.warps > b.stand.warps;
  });
  if (stands_.size() > kShownStands) {
    core_.stands_left_out = stands_.size() - kShownStands;
    stands_.erase(stands_.begin() + kShownStands, stands_.end());
  }
  for (StandRows& row : stands_) core_.stands.push_back(std::move(row.stand));
  if (lanes_left_out_ > 0) {
    core_.problems.add("warps", std::to_string(lanes_left_out_) +
                                    " threads stood at places of their own beyond the first " +
                                    std::to_string(kMaxStands) + " and are only counted");
  }
}

}  // namespace pm::cudacore
