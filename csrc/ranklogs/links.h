// NCCL's channels out of its information lines: who speaks to whom, and how.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace pm::ranklogs {

// How two ranks are joined, as NCCL says when it builds its channels; `count` channels alike.
struct Link {
  std::string host;  // of the writer of the line
  std::string how;   // "P2P/IPC", "NET/IB/0/GDRDMA"; " [receive]" behind it: by the receiver
  std::int64_t from = -1, to = -1;
  std::uint64_t count = 0;
  std::uint64_t line = 0;  // the first that says so
};

// Collects "Channel 00/0 : 0[0] -> 1[1] via P2P/IPC", of which a large job writes millions, by pair
// of ranks.
class Links {
 public:
  void take(std::string_view line, std::uint64_t number);
  std::vector<Link> rows();

 private:
  std::vector<Link> rows_;
  std::unordered_map<std::string, std::size_t> known_;
  std::string key_;
};

// Whether a line is one step of the way that NCCL takes back from an error:
// "node1:4711:4802 [0] NCCL INFO transport/net_ib.cc:1295 -> 6".
bool is_trail(std::string_view line) noexcept;

}  // namespace pm::ranklogs
