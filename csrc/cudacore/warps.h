// The walk over all warps of a dump, which folds lanes that stood or failed alike.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "cudacore/core.h"

namespace pm::cudacore {

// Where the rows of a lane lie, for its registers and memory.
struct LaneRows {
  std::uint32_t block_table = 0, block = 0;
  std::uint32_t warp_table = 0, warp = 0;
  std::uint32_t lane_table = 0, lane = 0;
  std::uint32_t registers = 0;  // that the warp uses; 0: not said
};

class Warps {
 public:
  Warps(const Sections& sections, Core& core) : sections_(sections), core_(core) {}

  // Fills stands, faults and counts; frames have their addresses alone.
  void read();
  // Of the fault that stands first.
  const std::optional<LaneRows>& first_lane() const noexcept { return first_lane_; }

 private:
  struct Processor {  // the multiprocessor that is being read
    std::uint32_t device = 0, id = 0;
    std::uint32_t exception = 0;
    bool has_pc = false;
    std::uint64_t pc = 0;
    std::string_view detail;
    std::optional<Three> target;
    bool told = false;  // a lane has the exception
  };
  struct Warp {
    std::uint32_t valid = 0, active = 0, in_system = 0;
    bool broken = false, has_error = false;
    std::uint64_t error_pc = 0;
  };
  struct Seen {  // the last warp and block that were counted
    std::uint64_t warp = 0, block = 0;
  };
  struct StandRows {
    Stand stand;
    Seen seen;
  };
  struct FaultRows {
    Fault fault;
    Seen seen;
    LaneRows rows;
  };
  using StandKey = std::vector<std::uint64_t>;  // device, grid, addresses
  struct KeyHash {
    std::size_t operator()(const StandKey& key) const noexcept;
  };

  void read_processor(std::uint32_t table, std::uint32_t index, std::uint32_t device);
  void read_block(std::uint32_t table, std::uint32_t index, Processor& processor);
  void read_warp(LaneRows rows, Where where, Processor& processor);
  void add_stand(const StandKey& key, const Where& where, const Warp& warp, bool failed);
  void add_fault(Source source, std::uint32_t code, std::uint64_t pc, const StandKey& key,
                 const Where& where, const LaneRows& rows, const Processor& processor);
  void add_processor_fault(const Processor& processor);
  void count_for_grid(const Where& where, bool block);
  void finish();

  const Sections& sections_;
  Core& core_;
  std::unordered_map<StandKey, std::size_t, KeyHash> stand_of_;
  std::vector<StandRows> stands_;
  std::uint64_t lanes_left_out_ = 0;
  std::map<std::vector<std::uint64_t>, std::size_t> fault_of_;
  std::vector<FaultRows> faults_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::size_t> grid_of_;
  std::uint64_t warp_number_ = 0, block_number_ = 0;
  std::optional<LaneRows> first_lane_;
};

}  // namespace pm::cudacore
