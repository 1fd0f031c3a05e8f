// read_core(): one call, everything that is known of a core without a debugger.
#include <pybind11/stl.h>

#include <algorithm>
#include <string_view>

#include "bind/everything.h"
#include "bind/findings.h"
#include "bind/process.h"
#include "bind/python.h"
#include "bind/register.h"
#include "bind/rows.h"
#include "bind/stacks.h"
#include "elfcore/fields.h"
#include "locks/futex.h"
#include "unwind/debug_files.h"

namespace py = pybind11;

namespace pm::bind {
namespace {

using elfcore::Core;
using elfcore::Module;
using elfcore::Modules;

py::object slim_row(const Core& core) {
  const elfcore::SlimInfo* const slim = core.slim();
  if (!slim) return py::none();
  py::dict names;
  for (const auto& [tid, name] : slim->threads) names[py::int_(tid)] = text(name);
  std::uint64_t kept = 0;
  for (const elfcore::Segment& piece : core.pieces()) kept += piece.present;
  py::dict row = row_of(*slim);
  row["kept_bytes"] = kept;
  row["thread_names"] = names;
  return row;
}

py::list module_rows(const Modules& modules, const std::vector<bool>& debug_lines) {
  py::list rows;
  for (std::size_t i = 0; i < modules.all().size(); ++i) {
    py::dict row = row_of(modules.all()[i]);
    row["has_debug_lines"] = static_cast<bool>(debug_lines[i]);
    rows.append(row);
  }
  return rows;
}

// Where code can be: executable segments, and file mappings that the core has no segment for.
py::list code_rows(const Core& core) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  for (const elfcore::Segment& segment : core.segments()) {
    if (!(segment.flags & elfcore::kExecute)) continue;
    if (!ranges.empty() && ranges.back().second == segment.start) {
      ranges.back().second = segment.end();
    } else {
      ranges.emplace_back(segment.start, segment.end());
    }
  }
  for (const elfcore::FileMapping& file : core.files()) {
    if (!core.segment_at(file.start)) ranges.emplace_back(file.start, file.end);
  }
  std::sort(ranges.begin(), ranges.end());
  py::list rows;
  for (const auto& [start, end] : ranges) rows.append(py::make_tuple(start, end));
  return rows;
}

py::list thread_rows(const Core& core, const Stacks& stacks, const Modules& modules,
                     const ProcessFindings& process) {
  py::list rows;
  StackRows made(stacks, modules);
  for (const elfcore::ThreadState& thread : core.threads()) {
    py::tuple registers(thread.registers.count());
    for (std::size_t i = 0; i < registers.size(); ++i) {
      registers[i] = py::int_(thread.registers.values[i]);
    }
    py::dict row;
    row["tid"] = thread.tid;
    row["signal"] = thread.signal;
    row["registers"] = registers;
    const std::size_t index = rows.size();
    row["handles"] =
        index < process.handled.size() ? value_of(process.handled[index], {}) : py::none();
    made.add(row, rows.size());
    rows.append(row);
  }
  return rows;
}

// createdump of .NET writes SIGABRT into the status of every thread and says no more. Of a crash it
// is a child that the crashed thread waits for; else it was asked for a snapshot.
void find_dumping_thread(Core& core, const Stacks& stacks) {
  constexpr std::size_t kInnermost = 40;
  const auto& threads = core.threads();
  const bool tells_nothing = std::all_of(threads.begin(), threads.end(),
                                         [](const auto& t) { return t.signal == 6; });  // SIGABRT
  if (core.origin() != elfcore::Origin::tool || core.signal() || !tells_nothing) return;
  bool may_have_raised = false;
  for (std::size_t i = 0; i < stacks.threads.size(); ++i) {
    const unwind::Stack& stack = stacks.threads[i];
    may_have_raised = may_have_raised || !stack.stopped.empty() || stack.skipped > 0;
    for (std::size_t at = 0; at < std::min(stack.frames.size(), kInnermost); ++at) {
      const unwind::Symbol* const symbol = stacks.names->find(stack.frames[at].lookup());
      const std::string_view name = symbol ? std::string_view(symbol->name) : "";
      if (name.starts_with("PROCCreateCrashDump")) return core.set_crashed_thread(i);
      for (const std::string_view raising : {"abort", "Abort", "raise", "kill", "terminate"}) {
        may_have_raised = may_have_raised || name.find(raising) != std::string_view::npos;
      }
      may_have_raised = may_have_raised || (at == 0 && !symbol);
    }
  }
  if (!stacks.threads.empty() && !may_have_raised) core.set_crashed_thread(std::nullopt);
}

// A debugger steps back over breakpoints of its own, and takes them out of what it saves: who
// stands behind an int3 would have died of it.
void find_own_trap(Core& core, const elfcore::Memory& memory) {
  constexpr std::int32_t kTrap = 5;
  constexpr std::uint8_t kInt3 = 0xcc;
  if (core.origin() != elfcore::Origin::gcore || core.crashed_thread()) return;
  if (core.machine() != elfcore::Machine::x86_64) return;
  const auto& threads = core.threads();
  for (std::size_t i = 0; i < threads.size(); ++i) {
    if (!threads[i].info || threads[i].info->number != kTrap) continue;
    const std::uint64_t before = threads[i].registers.pc() - 1;
    if (memory.get<std::uint8_t>(before) == kInt3) return core.set_crashed_thread(i);
  }
}

py::dict read_core(const std::filesystem::path& path,
                   const std::optional<std::filesystem::path>& executable,
                   const std::optional<std::filesystem::path>& sysroot, bool stacks,
                   std::size_t max_frames, bool python, bool python_locals) {
  const SigbusGuard guard;
  std::unique_ptr<Core> core;
  Findings found;
  {
    const py::gil_scoped_release release;
    Wanted wanted{{executable.value_or(""), sysroot.value_or("")}, stacks, max_frames, {}};
    if (python) wanted.python.emplace().locals = python_locals;
    core = Core::open(path);
    read_findings(*core, wanted, found);
  }
  if (guard.lost_pages() > 0) {
    core->problems().add(
        "core",
        "parts of it, or of a file that it names, could not be read and count as zeros: " +
            std::to_string(guard.lost_pages()) + " pages",
        "was it still being written, or is the disk failing? copy it to a local disk and try "
        "again");
  }
  return findings_row(*core, found);
}

}  // namespace

// Everything that is read of the process's memory is read here: a slim core keeps what this saw.
void read_findings(Core& core, const Wanted& wanted, Findings& found) {
  const elfcore::ModuleOptions& options = wanted.modules;
  found.modules = std::make_unique<Modules>(core, options);
  found.memory = std::make_unique<elfcore::Memory>(core, *found.modules);
  if (wanted.stacks) found.stacks = read_stacks(*found.memory, options.sysroot, wanted.max_frames);
  if (wanted.stacks) find_dumping_thread(core, found.stacks);
  find_own_trap(core, *found.memory);
  if (wanted.python) found.python = read_python(*found.memory, *wanted.python, core.problems());
  found.waits = locks::read_futex_waits(*found.memory);
  for (const Module& module : found.modules->all()) {
    found.debug_lines.push_back(unwind::debug_image(module, options.sysroot) != nullptr);
  }
  found.process = read_process(core, *found.modules, found.stacks);
}

py::dict findings_row(const Core& core, const Findings& found) {
  py::dict result;
  result["machine"] = core.machine() == elfcore::Machine::x86_64 ? "x86_64" : "aarch64";
  result["origin"] = value_of(core.origin(), {});
  result["slim"] = slim_row(core);
  result["size_bytes"] = core.bytes().size();
  result["expected_bytes"] = core.expected_size();
  result["page_size"] = core.page_size();
  result["signal"] = value_of(core.signal(), {});
  result["register_names"] = values_of(elfcore::register_names(core.machine()), {});
  result["threads"] = thread_rows(core, found.stacks, *found.modules, found.process);
  result["code"] = code_rows(core);
  result["modules"] = module_rows(*found.modules, found.debug_lines);
  add_process(result, core, found.process);
  result["futex_waits"] = rows_of(found.waits);
  result["python"] = python_row(found.python);
  result["problems"] = problems(core.problems());
  return result;
}

void read_everything(Core& core, const elfcore::ModuleOptions& options) {
  constexpr std::size_t kAllFrames = 1'000'000;
  Wanted wanted{options, true, kAllFrames, {}};
  wanted.python.emplace().locals = true;
  wanted.python->greenlets = false;  // else every page with an object would be kept
  Findings found;
  read_findings(core, wanted, found);
}

void register_core(py::module_& module) {
  module.def("read_core", &read_core, py::arg("path"), py::kw_only(),
             py::arg("executable") = py::none(), py::arg("sysroot") = py::none(),
             py::arg("stacks") = true, py::arg("max_frames") = 512, py::arg("python") = true,
             py::arg("python_locals") = false);
}

}  // namespace pm::bind
