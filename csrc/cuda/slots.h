// Who has which slot of a device's ring of records.
//
// A slot is used again when its record has come. If nobody has read it by then, its numbers are
// saved for whoever will: no result ever shows another one's. What is captured into a CUDA graph
// has a slot of its own for as long as the graph can be replayed.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "cuda/record.h"

namespace pm::cuda {

// A result that may still be on its way.
struct Pending {
  u32 slot = 0;
  u32 run = 0;  // its number among the runs of the slot; of a captured one, the last before it
  bool captured = false;
  bool here = false;
  Tally tally{};
};

class Slots {
 public:
  static constexpr u32 kNone = ~u32{0};

  // `records` are zero, and a device writes them: the first `ring` in turn, the others for graphs.
  Slots(const Record* records, u32 ring, u32 captured);

  // Gives a slot to `pending`, which stays where it is until let_go(). False if all are in flight,
  // or in graphs.
  bool claim(Pending& pending, bool captured);
  // The launch failed: the record will not come.
  void give_up(Pending& pending);
  // Nobody will ask for it any more. A record on its way is waited for before the slot is used.
  void let_go(Pending& pending);
  // Whether the numbers are here; takes them from the record if so. Of a graph, those of the last
  // replay that has ended.
  bool look(Pending& pending);
  // No graph with this slot exists any more.
  void graph_gone(u32 slot);

 private:
  bool arrived(u32 slot) const;
  void read(Pending& pending) const;

  const volatile Record* records_;
  u32 ring_;
  u32 next_ = 0;
  std::vector<u32> runs_;         // that were launched, of slots of the ring
  std::vector<Pending*> owners_;  // who may still ask
  std::vector<bool> in_graph_;
  std::vector<u32> free_;  // of those for graphs
  std::mutex mutex_;
};

}  // namespace pm::cuda
