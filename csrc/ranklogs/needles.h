// Literals that make a line worth keeping, looked for in one pass over every byte.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace pm::ranklogs {

// What a line is kept for. Each kind has a room of its own, so that chatter of one does not push
// out another.
enum class Kind : std::uint8_t {
  kTraceback,  // Python's tracebacks, and what stands around them
  kFatal,      // the end of a process in its own words: terminate, Fatal Python error, a signal
  kFrames,     // lines of native stacks, wherever they stand
  kLauncher,   // torchrun, srun, mpirun on how processes ended
  kComm,       // collectives, watchdogs, NCCL's warnings
  kNccl,       // NCCL's information: version, transports, peers
  kStartup,    // stores, rendezvous, names, ports
  kWorld,      // how many ranks there are
  kTrail,      // NCCL's way back from an error: file.cc:123 -> 2
  kLink,       // NCCL's channels: who speaks to whom, and how
  kError,      // anything else that calls itself an error
  kCount,
};

// Which kinds a line has. A kind is a bit.
using Kinds = std::uint32_t;
constexpr Kinds bit(Kind kind) noexcept { return Kinds{1} << static_cast<unsigned>(kind); }

class Needles {
 public:
  Needles();
  Kinds find(std::string_view text) const noexcept;

 private:
  struct Needle {
    std::string_view text;
    std::size_t window;  // where in it the four bytes stand that are looked for first
    Kind kind;
    std::uint8_t next;  // of the same hash; 0 is none
  };
  bool may_be(std::uint32_t key) const noexcept;
  Kinds at(std::string_view text, std::size_t at) const noexcept;
  static std::uint32_t hash(const char* at) noexcept;

  std::vector<Needle> needles_;
  std::array<std::uint64_t, 1024> present_{};
  std::array<std::uint8_t, 65536> first_{};
};

}  // namespace pm::ranklogs
