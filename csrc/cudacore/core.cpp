#include "cudacore/core.h"

#include <algorithm>
#include <functional>
#include <map>

#include "cudacore/warps.h"

namespace pm::cudacore {
namespace {

constexpr std::uint32_t kMaxDevices = 256;
constexpr std::uint32_t kMaxContexts = 1024;
constexpr std::uint32_t kMaxModules = 1 << 16;
constexpr std::uint32_t kMaxGrids = 1 << 16;
constexpr std::size_t kShownGrids = 256;
constexpr std::size_t kMaxRegisters = 256;
// Symbols of all modules together: crafted ones may all be the same bytes.
constexpr std::uint64_t kMaxSymbolBytes = std::uint64_t{512} << 20;

std::vector<std::uint32_t> words(Bytes bytes, std::size_t limit) {
  std::vector<std::uint32_t> result;
  Cursor cursor(bytes);
  while (cursor.left() >= 4 && result.size() < limit) result.push_back(cursor.u32());
  return result;
}

class Reader {
 public:
  Reader(Bytes file, Core& core)
      : core_(core), sections_(file, core.problems), warps_(sections_, core) {
    core.size_bytes = file.size();
    core.expected_bytes = sections_.expected_bytes();
  }

  void read(std::uint64_t memory_bytes) {
    read_metadata();
    read_devices();
    read_contexts();
    read_grids();
    warps_.read();
    read_modules();
    name_all();
    count_memory();
    if (warps_.first_lane()) read_focus(*warps_.first_lane(), memory_bytes);
    order_grids();
    if (core_.devices.empty()) {
      core_.problems.add("devices", "the dump has no table of devices",
                         "copy the dump again if the original is whole");
    }
  }

 private:
  // Calls use(row, table, index) for the rows of all tables of a kind.
  template <class Use>
  void each(Kind kind, std::uint32_t limit, Use use) const {
    std::uint32_t left = limit;
    for (const std::uint32_t table : sections_.of(kind)) {
      const std::uint32_t count = sections_.rows(table, left);
      for (std::uint32_t i = 0; i < count; ++i) use(sections_.row(table, i), table, i);
      left -= count;
    }
  }

  std::string text(std::uint64_t offset) const { return std::string(sections_.text(offset)); }

  void read_metadata() {
    each(Kind::metadata, 1, [this](const Row& row, std::uint32_t, std::uint32_t) {
      core_.metadata = {text(row.u64(0)), row.u32(8),  row.u32(12), row.u32(16),
                        row.u32(20),      row.u32(24), row.u32(28)};
    });
  }

  void read_devices() {
    each(Kind::devices, kMaxDevices, [this](const Row& row, std::uint32_t, std::uint32_t) {
      core_.devices.push_back({text(row.u64(0)), text(row.u64(8)), text(row.u64(16)), row.u32(24),
                               row.u32(28), row.u32(32), row.u32(36), row.u32(40), row.u32(44),
                               row.u32(48), row.u32(56), row.u32(60), row.u32(68)});
    });
  }

  void read_contexts() {
    each(Kind::contexts, kMaxContexts,
         [this](const Row& row, std::uint32_t table, std::uint32_t index) {
           context_of_.emplace(std::pair{table, index}, core_.contexts.size());
           core_.contexts.push_back({sections_.at(table).info, row.u64(0), row.u32(36)});
         });
  }

  void read_grids() {
    each(Kind::grids, kMaxGrids, [this](const Row& row, std::uint32_t table, std::uint32_t) {
      Grid grid;
      grid.device = sections_.at(table).info;
      grid.id = row.u64(0);
      grid.context = row.u64(8);
      grid.entry = row.u64(24);
      grid.module = row.u64(32);
      grid.type = row.u32(56);
      grid.origin = row.u32(60);
      grid.status = row.u32(64);
      grid.registers = row.u32(68);
      grid.grid_size = {row.u32(72), row.u32(76), row.u32(80)};
      grid.block_size = {row.u32(84), row.u32(88), row.u32(92)};
      grid.blocking = row.u32(96) != 0;
      grid.host_tid = row.u32(100);
      grid.cluster_size = {row.u32(104), row.u32(108), row.u32(112)};
      core_.grids.push_back(std::move(grid));
    });
  }

  void read_modules() {
    each(Kind::modules, kMaxModules,
         [this](const Row& row, std::uint32_t table, std::uint32_t index) {
           const Section& of = sections_.at(table);
           const auto context = context_of_.find({of.link, of.info});
           module_of_.emplace(std::pair{table, index}, core_.modules.size());
           core_.modules.push_back(
               {context == context_of_.end() ? 0 : static_cast<std::uint32_t>(context->second),
                row.u64(0), 0, 0, false});
         });
  }

  // Each relocated image is parsed once; images that no module claims are looked at, too.
  void name_all() {
    std::vector<std::uint64_t> addresses;
    const auto each_frame = [this](auto use) {
      for (Fault& fault : core_.faults) use(fault.frames);
      for (Stand& stand : core_.stands) use(stand.frames);
    };
    each_frame([&](std::vector<Frame>& frames) {
      for (std::size_t i = 0; i < frames.size(); ++i) addresses.push_back(code_of(frames[i].pc, i));
    });
    for (const Grid& grid : core_.grids) {
      if (grid.entry != 0) addresses.push_back(grid.entry);
    }
    std::sort(addresses.begin(), addresses.end());
    addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
    std::map<std::uint64_t, CodePlace> found;
    std::uint64_t unread = 0;
    for (const std::uint32_t index : sections_.of(Kind::relocated_image)) {
      const Section& section = sections_.at(index);
      const auto cubin = Cubin::parse(sections_.content(section));
      if (!cubin) {
        ++unread;
        continue;
      }
      const auto module = module_of_.find({section.link, section.info});
      if (module != module_of_.end()) {
        Module& row = core_.modules[module->second];
        row.bytes = section.size;
        row.functions = cubin->functions();
        row.has_lines = cubin->has_lines();
      }
      find_in(*cubin, addresses, found);
    }
    if (unread > 0) {
      core_.problems.add("code of the GPU",
                         std::to_string(unread) + " modules are cut or no ELF files");
    }
    each_frame([&](std::vector<Frame>& frames) {
      for (std::size_t i = 0; i < frames.size(); ++i) {
        const auto at = found.find(code_of(frames[i].pc, i));
        if (at != found.end()) frames[i].code = at->second;
      }
    });
    for (Grid& grid : core_.grids) {
      const auto at = found.find(grid.entry);
      if (at != found.end()) grid.kernel = demangled(at->second);
    }
  }

  // Callers stand behind their call, which may be the first address of what comes next.
  static std::uint64_t code_of(std::uint64_t pc, std::size_t depth) {
    return depth > 0 && pc > 0 ? pc - 1 : pc;
  }

  static std::string demangled(const CodePlace& code) { return code.places.back().function; }

  void find_in(const Cubin& cubin, const std::vector<std::uint64_t>& addresses,
               std::map<std::uint64_t, CodePlace>& found) {
    std::vector<std::uint64_t> covered;
    for (const std::uint64_t address : addresses) {
      if (cubin.covers(address) && !found.contains(address)) covered.push_back(address);
    }
    if (covered.empty()) return;
    symbol_bytes_ += cubin.symbol_bytes();
    if (symbol_bytes_ > kMaxSymbolBytes) {
      core_.problems.add("code of the GPU", "its symbols are too many; some places have no name");
      return;
    }
    auto places = cubin.find(covered);
    for (std::size_t i = 0; i < covered.size(); ++i) {
      if (places[i]) found.emplace(covered[i], std::move(*places[i]));
    }
  }

  void count_memory() {
    const auto sum = [this](Kind kind) {
      std::uint64_t bytes = 0;
      for (const std::uint32_t index : sections_.of(kind)) {
        bytes += sections_.content(sections_.at(index)).size();
      }
      return bytes;
    };
    core_.global_bytes = sum(Kind::global_memory);
    core_.managed_bytes = sum(Kind::managed_memory);
    core_.shared_bytes = sum(Kind::shared_memory);
    core_.local_bytes = sum(Kind::local_memory);
  }

  void read_focus(const LaneRows& rows, std::uint64_t memory_bytes) {
    Focus focus;
    const Row warp = sections_.row(rows.warp_table, rows.warp);
    focus.valid_lanes = warp.u32(12);
    focus.active_lanes = warp.u32(16);
    const auto read = [&](std::uint32_t table, std::uint32_t row, Kind kind, std::size_t limit) {
      const Section* const section = sections_.only(table, row, kind);
      return section ? words(sections_.content(*section), limit) : std::vector<std::uint32_t>{};
    };
    // Drivers write all that the lane could have; the warp says how many it uses.
    const std::size_t used =
        rows.registers != 0 ? std::min<std::size_t>(rows.registers, kMaxRegisters) : kMaxRegisters;
    focus.registers = read(rows.lane_table, rows.lane, Kind::registers, used);
    focus.predicates = read(rows.lane_table, rows.lane, Kind::predicates, 32);
    focus.uniform_registers =
        read(rows.warp_table, rows.warp, Kind::uniform_registers, kMaxRegisters);
    focus.uniform_predicates = read(rows.warp_table, rows.warp, Kind::uniform_predicates, 32);
    focus.local =
        memory(sections_.only(rows.lane_table, rows.lane, Kind::local_memory), memory_bytes);
    focus.shared =
        memory(sections_.only(rows.block_table, rows.block, Kind::shared_memory), memory_bytes);
    core_.focus = std::move(focus);
  }

  std::optional<Memory> memory(const Section* section, std::uint64_t limit) const {
    if (!section) return std::nullopt;
    const Bytes bytes = clip(sections_.content(*section), 0, limit);
    return Memory{section->address, section->size, {bytes.begin(), bytes.end()}};
  }

  void order_grids() {
    std::stable_sort(core_.grids.begin(), core_.grids.end(),
                     [](const Grid& a, const Grid& b) { return a.warps > b.warps; });
    if (core_.grids.size() <= kShownGrids) return;
    core_.grids_left_out = core_.grids.size() - kShownGrids;
    core_.grids.resize(kShownGrids);
  }

  Core& core_;
  Sections sections_;
  Warps warps_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> context_of_, module_of_;
  std::uint64_t symbol_bytes_ = 0;
};

}  // namespace

Core read_core(Bytes file, std::uint64_t memory_bytes) {
  Core core;
  Reader(file, core).read(memory_bytes);
  return core;
}

}  // namespace pm::cudacore
