// What a task waits for in the call that it never came back from, and who has the other end.
#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "strace/file_tables.h"
#include "strace/processes.h"

namespace pm::strace {

// The uses of futexes, of which the oldest half is forgotten when there are too many.
class FutexUses {
 public:
  // `space` is the process whose address it is, or 0 for memory that processes share.
  FutexUse& at(std::uint32_t space, std::uint64_t address);
  const FutexUse* find(std::uint32_t space, std::uint64_t address) const;

 private:
  struct Key {
    std::uint64_t address;
    std::uint32_t space;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const noexcept {
      return (key.address ^ (std::uint64_t{key.space} << 40)) * 0x9e3779b97f4a7c15ULL >> 7;
    }
  };
  static constexpr std::size_t kMost = 32'768;  // of each of two generations
  using Map = std::unordered_map<Key, FutexUse, Hash>;
  Map now_;
  Map before_;
};

class Waits {
 public:
  Waits(const Processes& processes, FileTables& files, const Descriptions& descriptions)
      : processes_(processes), files_(files), descriptions_(descriptions) {}

  // Takes in who woke whom in one block.
  void absorb(const Tallies& tallies, const BlockOrigin& origin);
  // The descriptors that a call of many waits for.
  std::vector<std::int64_t> descriptors_of(const Task& task, std::string_view call,
                                           std::string_view arguments) const;
  // What the line on which a call began says of it.
  Blocked blocked_in(const Task& task, std::string_view line, Place place);

 private:
  Awaited awaited(const Task& task, const FdArgument& fd);

  const Processes& processes_;
  FileTables& files_;
  const Descriptions& descriptions_;
  FutexUses futexes_;
  std::uint64_t slots_searched_ = 0;
};

}  // namespace pm::strace
