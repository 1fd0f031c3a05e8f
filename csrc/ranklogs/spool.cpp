#include "ranklogs/spool.h"

#include <string>

namespace pm::ranklogs {
namespace {

constexpr std::size_t kSpilled = std::size_t{32} << 10;
constexpr std::size_t kMostSpilled = std::size_t{64} << 20;

}  // namespace

void Spool::take(std::uint32_t index, std::string_view text) {
  std::string& pending = writers_[index].pending;
  pending += text;
  pending += '\n';
  pending_bytes_ += text.size() + 1;
  if (pending.size() >= kSpilled) spill(index);
  if (pending_bytes_ >= kMostSpilled) {
    for (std::uint32_t i = 0; i < writers_.size(); ++i) spill(i);
  }
}

void Spool::spill(std::uint32_t index) {
  std::string& pending = writers_[index].pending;
  if (pending.empty()) return;
  sink_(index, pending);
  pending_bytes_ -= pending.size();
  pending.clear();
}

}  // namespace pm::ranklogs
