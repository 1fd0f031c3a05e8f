// A core dump of CUDA GPUs: what they ran, where each warp stood, and what went wrong.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cudacore/cubin.h"
#include "cudacore/sections.h"

namespace pm::cudacore {

using Three = std::array<std::uint32_t, 3>;

struct Metadata {
  std::string generator;
  std::uint32_t driver_major = 0, driver_minor = 0, cuda_major = 0, cuda_minor = 0;
  std::uint32_t flags = 0, timestamp = 0;
};

struct Device {
  std::string name, chip, sm_type;
  std::uint32_t id = 0, pci_bus = 0, pci_device = 0;
  std::uint32_t sms = 0, warps_per_sm = 0, lanes_per_warp = 0, registers_per_lane = 0;
  std::uint32_t sm_major = 0, sm_minor = 0;
  std::uint32_t status = 0;
};

struct Context {
  std::uint32_t device = 0;  // place in `devices`
  std::uint64_t id = 0;
  std::uint32_t tid = 0;  // of the thread of the process that owns it
};

struct Module {
  std::uint32_t context = 0;  // place in `contexts`
  std::uint64_t handle = 0;
  std::uint64_t bytes = 0;  // of its code; 0: the dump has none
  std::uint64_t functions = 0;
  bool has_lines = false;
};

struct Grid {
  std::uint32_t device = 0;
  std::uint64_t id = 0, context = 0, module = 0, entry = 0;
  std::uint32_t type = 0, origin = 0, status = 0, registers = 0, host_tid = 0;
  bool blocking = false;  // launched with CUDA_LAUNCH_BLOCKING
  Three grid_size{}, block_size{}, cluster_size{};
  std::uint64_t blocks = 0, warps = 0;  // on the device when the dump was written
  std::string kernel;                   // demangled; empty: not known
};

// Where one lane stood, by hardware and by the program's own numbers.
struct Where {
  std::uint32_t device = 0, sm = 0, warp = 0, lane = 0;
  std::uint64_t grid = 0;
  Three block{}, thread{};
};

struct Frame {
  std::uint64_t pc = 0;
  std::optional<CodePlace> code;
};

// Who says that a fault happened.
enum class Source { lane, warp, sm, trap };

// Lanes that failed alike: the same exception at the same place of the same kernel.
struct Fault {
  Source source = Source::lane;
  std::uint32_t code = 0;  // CUDBGException_t; 0: a trap or breakpoint
  std::uint64_t pc = 0;
  bool has_pc = false;
  bool has_thread = false;  // else it is known of the multiprocessor alone
  Where first;
  std::uint64_t lanes = 0, warps = 0, blocks = 0;
  std::string detail;  // what the driver says in words
  std::optional<Three> target_block;
  std::vector<Frame> frames;
};

// Lanes that stood alike: the same calls in the same kernel.
struct Stand {
  std::uint32_t device = 0;
  std::uint64_t grid = 0;
  std::uint64_t lanes = 0, active = 0, warps = 0, blocks = 0;
  std::uint64_t failed = 0;     // lanes with an exception
  std::uint64_t in_system = 0;  // lanes in the driver's own code: printf, malloc, assert
  std::vector<Where> some;
  std::vector<Frame> frames;
};

struct Memory {
  std::uint64_t address = 0, size = 0;
  std::vector<std::uint8_t> first;  // as much as was asked for
};

// What the dump has of the first lane that failed.
struct Focus {
  std::vector<std::uint32_t> registers, predicates, uniform_registers, uniform_predicates;
  std::optional<Memory> local, shared;
  std::uint32_t valid_lanes = 0, active_lanes = 0;
};

struct Core {
  std::uint64_t size_bytes = 0, expected_bytes = 0;
  std::optional<Metadata> metadata;
  std::vector<Device> devices;
  std::vector<Context> contexts;
  std::vector<Module> modules;
  std::vector<Grid> grids;  // that have warps first
  std::vector<Fault> faults;
  std::vector<Stand> stands;  // most warps first
  std::uint64_t stands_left_out = 0, grids_left_out = 0;
  std::uint64_t blocks = 0, warps = 0, lanes = 0;
  std::uint64_t global_bytes = 0, managed_bytes = 0, shared_bytes = 0, local_bytes = 0;
  std::optional<Focus> focus;
  Problems problems;
};

// Throws EvidenceError for what is no core of a CUDA GPU. `memory_bytes`: how much of the shared
// and local memory of the first lane that failed is copied.
Core read_core(Bytes file, std::uint64_t memory_bytes = 0);

}  // namespace pm::cudacore
