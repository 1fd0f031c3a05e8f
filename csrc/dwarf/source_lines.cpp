#include "dwarf/source_lines.h"

#include <algorithm>

#include "base/demangle.h"
#include "dwarf/inlined_calls.h"
#include "dwarf/line_program.h"

namespace pm::dwarf {
namespace {

using Places = std::vector<std::vector<SourcePlace>>;

// Line programs of all units together: crafted units may all name the same one.
constexpr std::uint64_t kMaxRunBytes = std::uint64_t{256} << 20;
// As many units as are looked at in search of an address.
constexpr std::size_t kMaxPrograms = 100'000;

struct Row {
  std::uint64_t file = 0;
  std::uint64_t line = 0;
};

std::uint32_t narrowed(std::uint64_t line) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(line, 0xffffffff));
}

class Reader {
 public:
  explicit Reader(std::shared_ptr<const elfcore::Image> image)
      : of_gpu_(image->machine() == EM_CUDA), file_(std::move(image)), units_(file_) {}

  Places read(std::span<const std::uint64_t> addresses) {
    Places places(addresses.size());
    if (file_.packed(Section::info) || file_.get(Section::info).empty()) {
      read_all_programs(addresses, places);
      return places;
    }
    for (const auto& [offset, indices] : units_.covering(addresses)) {
      const Unit* const unit = units_.at(offset);
      if (unit) read_unit(*unit, addresses, indices, places);
    }
    return places;
  }

 private:
  void read_unit(const Unit& unit, std::span<const std::uint64_t> addresses,
                 const std::vector<std::size_t>& indices, Places& places) {
    if (!unit.line_offset) return;
    const auto program = LineProgram::at(file_, *unit.line_offset, unit.folder);
    if (!program || run_bytes_ > kMaxRunBytes) return;
    run_bytes_ += program->end() - *unit.line_offset;
    std::vector<std::uint64_t> some;
    for (const std::size_t index : indices) some.push_back(addresses[index]);
    std::vector<Row> rows(some.size());
    program->run(some, [&](std::size_t i, std::uint64_t file, std::uint64_t line) {
      if (rows[i].line == 0) rows[i] = {file, line};  // line 0: code of the compiler's own
    });
    const std::vector<CallChain> chains = call_chains(unit, file_, some);
    for (std::size_t i = 0; i < some.size(); ++i) {
      if (rows[i].line == 0 && chains[i].inlined.empty()) continue;
      places[indices[i]] = chain_of(*program, rows[i], chains[i]);
    }
  }

  // The row of the line program belongs to the innermost call; each call stands at a line of the
  // one around it.
  std::vector<SourcePlace> chain_of(const LineProgram& program, Row row, const CallChain& chain) {
    std::vector<SourcePlace> result;
    const auto add = [&](std::uint64_t function) {
      result.push_back({function ? function_name(function, units_, file_) : std::string{},
                        program.path(row.file), narrowed(row.line)});
    };
    for (auto call = chain.inlined.rbegin(); call != chain.inlined.rend(); ++call) {
      add(call->origin);
      row = {call->file, call->line};
    }
    add(chain.function);
    return result;
  }

  // Programs stand in the order of their units: where there are as many, those of the units that
  // cover the addresses are tried first, which are mostly all that is needed.
  void read_all_programs(std::span<const std::uint64_t> addresses, Places& places) {
    const std::vector<std::uint64_t> all = programs();
    std::vector<std::uint64_t> offsets;
    for (const std::size_t number : units_.numbers(addresses, all.size())) {
      offsets.push_back(all[number]);
    }
    offsets.insert(offsets.end(), all.begin(), all.end());
    std::size_t unknown = addresses.size();
    for (const std::uint64_t offset : offsets) {
      if (unknown == 0) return;
      const auto program = LineProgram::at(file_, offset, {});
      if (!program) continue;
      if (of_gpu_) {
        read_gpu_program(*program, addresses, places, unknown);
      } else {
        program->run(addresses, [&](std::size_t i, std::uint64_t file, std::uint64_t line) {
          if (line == 0 || !places[i].empty()) return;
          places[i].push_back({{}, program->path(file), narrowed(line)});
          --unknown;
        });
      }
    }
  }

  // Where the line programs begin.
  std::vector<std::uint64_t> programs() const {
    std::vector<std::uint64_t> offsets;
    Cursor cursor(file_.get(Section::line));
    while (!cursor.at_end() && offsets.size() < kMaxPrograms) {
      const std::uint64_t offset = cursor.offset();
      std::uint64_t length = cursor.u32();
      if (length == 0xffffffff) length = cursor.u64();
      cursor.skip(length);
      if (cursor.ok()) offsets.push_back(offset);
    }
    return offsets;
  }

  void read_gpu_program(const LineProgram& program, std::span<const std::uint64_t> addresses,
                        Places& places, std::size_t& unknown) {
    program.run_inlined(addresses, [&](std::size_t i, std::span<const LineProgram::Place> chain) {
      if (!places[i].empty()) return;
      for (const LineProgram::Place& at : chain) {
        const std::string_view name =
            at.inlined ? file_.text(Section::str, at.name) : std::string_view{};
        places[i].push_back({demangle(name), program.path(at.file), narrowed(at.line)});
      }
      --unknown;
    });
  }

  bool of_gpu_;
  DebugFile file_;
  Units units_;
  std::uint64_t run_bytes_ = 0;  // of line programs
};

}  // namespace

std::vector<std::vector<SourcePlace>> source_lines(std::shared_ptr<const elfcore::Image> image,
                                                   std::span<const std::uint64_t> addresses) {
  return Reader(std::move(image)).read(addresses);
}

}  // namespace pm::dwarf
