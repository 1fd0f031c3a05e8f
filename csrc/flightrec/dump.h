// One dump of PyTorch's flight recorder: the collectives that a rank called, equal parts once.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "flightrec/pickle.h"

namespace pm::flightrec {

struct Frame {
  std::string name;
  std::string file;        // empty: it does not say
  std::int64_t line = -1;  // -1: it does not say
};

using Sizes = std::vector<std::vector<std::int64_t>>;

// What calls have in common. Numbers are places in the tables of the dump.
struct Shape {
  std::string group, group_words;
  std::optional<std::int64_t> group_number;  // of this process: "pg_id"
  std::string operation;                     // with the backend: "nccl:all_reduce"
  std::string state;
  std::uint32_t input_sizes = 0, output_sizes = 0;
  std::uint32_t dtypes = 0;
  std::uint32_t stack = 0;
  std::int64_t timeout_ms = 0;  // 0: it does not say
  bool retired = false;         // its process looks at it no more: it has ended, or failed
  bool is_p2p = false;
};

struct Call {
  std::int64_t sequence = 0;
  std::int64_t created_ns = 0;  // since 1970, by the clock of the host; 0: it does not say
  std::int64_t started_ns = 0;  // when its device was seen to have begun it
  std::uint32_t shape = 0;
};

// The ranks of a process group: as numbers, or as the JSON text that NCCL's dumps have.
struct Members {
  std::string group;
  std::string words;  // what the program calls it
  std::string text;
  std::vector<std::int64_t> ranks;  // in the order of the group
};

// How far a process has come in one of its groups; -1: it does not say, or has called nothing.
struct Status {
  std::int64_t group_number = 0;
  std::int64_t enqueued = -1, started = -1, completed = -1;
};

struct Dump {
  std::string version;
  std::vector<Call> calls;  // in the order in which they were called, the last ones
  std::vector<Shape> shapes;
  std::vector<Sizes> sizes;
  std::vector<std::vector<std::string>> dtypes;
  std::vector<Frame> frames;
  std::vector<std::vector<std::uint32_t>> stacks;  // of frames, the innermost first
  std::vector<Members> members;
  std::vector<Status> status;
};

// Reads a pickled dump (torch/csrc/distributed/c10d/FlightRecorder.hpp, versions 1.x to 2.10).
// Throws EvidenceError where it is no dump, cut, damaged, or larger than the limits.
Dump read_dump(Bytes bytes, const Limits& limits = {});

}  // namespace pm::flightrec
