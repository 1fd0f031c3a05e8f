// Texts that make a line worth keeping, looked for in one pass over every byte.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/literal_filter.h"

namespace pm::ranklogs {

// What a line is kept for. Each kind has a room of its own, so that chatter of one does not push
// out another. The names are those of `KEEPS` in facts/signature.py, in this order.
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
  kMark,       // behind which a launcher may start its processes anew
  kCount,
};

// The kind of a name, if there is one.
std::optional<Kind> kind_of(std::string_view name) noexcept;

// Which kinds a line has. A kind is a bit.
using Kinds = std::uint32_t;
constexpr Kinds bit(Kind kind) noexcept { return Kinds{1} << static_cast<unsigned>(kind); }

struct KeepLiteral {
  std::string text;  // of four bytes or more
  Kind kind;
};

class KeepLiterals {
 public:
  static constexpr std::size_t kMost = 4096;

  // Throws std::invalid_argument for a text of less than four bytes, or for more than kMost.
  explicit KeepLiterals(std::span<const KeepLiteral> literals);
  Kinds find(std::string_view text) const;

 private:
  // A text that is too short for the filter, which would look at more places for its sake, and its
  // rarest two bytes, as often as a vector has room for them.
  struct Short {
    KeepLiteral literal;
    std::array<char, 16> first, second;
  };
  bool may_hold_short(std::string_view text) const noexcept;

  std::vector<Kind> kinds_;  // of each text of the filter
  LiteralFilter filter_;
  std::vector<Short> short_;
};

}  // namespace pm::ranklogs
