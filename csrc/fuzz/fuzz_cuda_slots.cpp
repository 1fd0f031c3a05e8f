// Any bytes as a run of a program: scans are launched, records come out of order, results are read,
// dropped and captured into graphs. No result may ever show the numbers of another one.
#include <cstdlib>
#include <deque>
#include <memory>
#include <vector>

#include "cuda/slots.h"

namespace {

using namespace pm::cuda;

constexpr u32 kRing = 4, kGraphs = 3;

struct Scan {
  Pending pending;
  u64 number;  // what its record will say
};
struct Graph {
  u32 slot;
  std::shared_ptr<Scan> scan;
  u64 replayed = 0;
};

class Device {
 public:
  std::vector<Record> records = std::vector<Record>(kRing + kGraphs);
  void write(u32 slot, u64 number) {
    Record& record = records[slot];
    const u64 run = record.ended + 1;
    record.started = run;
    record.tally.zeros = number;
    record.ended = run;
  }
};

void check(Slots& slots, Scan& scan, bool expected) {
  if (slots.look(scan.pending) != expected) std::abort();
  if (expected && scan.pending.tally.zeros != scan.number) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Device device;
  Slots slots(device.records.data(), kRing, kGraphs);
  struct Flight {
    u32 slot;
    u64 number;
  };
  std::vector<Flight> flying;
  std::vector<std::pair<std::shared_ptr<Scan>, bool>> held;  // and whether its record has come
  std::vector<Graph> graphs;
  u64 number = 0;
  for (std::size_t i = 0; i + 1 < size && i < 4000; i += 2) {
    const std::size_t which = data[i + 1];
    switch (data[i] % 7) {
      case 0: {  // launch
        auto scan = std::make_shared<Scan>(Scan{{}, ++number});
        if (slots.claim(scan->pending, false) == (flying.size() == kRing)) std::abort();
        if (flying.size() == kRing) break;
        if (which % 8 == 7) {  // which fails
          slots.give_up(scan->pending);
          break;
        }
        flying.push_back({scan->pending.slot, number});
        held.emplace_back(std::move(scan), false);
        break;
      }
      case 1: {  // a record comes
        if (flying.empty()) break;
        const std::size_t at = which % flying.size();
        const Flight flight = flying[at];
        flying.erase(flying.begin() + static_cast<std::ptrdiff_t>(at));
        device.write(flight.slot, flight.number);
        for (auto& [scan, here] : held) here = here || scan->number == flight.number;
        break;
      }
      case 2:  // a result is read
        if (!held.empty()) {
          auto& [scan, here] = held[which % held.size()];
          check(slots, *scan, here);
        }
        break;
      case 3: {  // a result is dropped
        if (held.empty()) break;
        const std::size_t at = which % held.size();
        slots.let_go(held[at].first->pending);
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      }
      case 4: {  // a scan is captured
        auto scan = std::make_shared<Scan>(Scan{{}, 0});
        if (!slots.claim(scan->pending, true)) break;
        if (scan->pending.slot < kRing) std::abort();
        for (const Graph& graph : graphs) {
          if (graph.slot == scan->pending.slot) std::abort();
        }
        graphs.push_back({scan->pending.slot, scan});
        break;
      }
      case 5:  // a graph is replayed, and the result read for the first time
        if (!graphs.empty()) {
          Graph& graph = graphs[which % graphs.size()];
          if (graph.scan != nullptr && graph.replayed == 0) check(slots, *graph.scan, false);
          graph.replayed = ++number;
          device.write(graph.slot, number);
          if (graph.scan != nullptr && !graph.scan->pending.here) {
            graph.scan->number = number;
            check(slots, *graph.scan, true);
          }
        }
        break;
      default: {  // a graph goes, or its result before it
        if (graphs.empty()) break;
        const std::size_t at = which % graphs.size();
        if (graphs[at].scan != nullptr) slots.let_go(graphs[at].scan->pending);
        graphs[at].scan = nullptr;
        if (which % 2 == 0) break;
        slots.graph_gone(graphs[at].slot);
        graphs.erase(graphs.begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
  }
  return 0;
}
