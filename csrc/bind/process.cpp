#include "bind/process.h"

#include <pybind11/stl.h>

#include <algorithm>

#include "bind/register.h"
#include "bind/rows.h"
#include "elfcore/abort_message.h"
#include "elfcore/environment.h"
#include "elfcore/fields.h"
#include "elfcore/python_version.h"

namespace py = pybind11;

namespace pm::bind {
namespace {

using elfcore::Core;

py::list decode(const std::string& machine, const py::bytes& code, std::uint64_t pc,
                const std::vector<std::uint64_t>& values) {
  elfcore::Registers registers;
  registers.machine = machine == "aarch64" ? elfcore::Machine::aarch64 : elfcore::Machine::x86_64;
  std::copy_n(values.begin(), std::min(values.size(), registers.values.size()),
              registers.values.begin());
  const std::string_view view = code;
  const auto decoded = elfcore::decode_instruction(
      {reinterpret_cast<const std::uint8_t*>(view.data()), view.size()}, pc, registers);
  py::list rows;
  for (const elfcore::Operand& operand : decoded.operands) {
    elfcore::Instruction instruction;
    instruction.pc = pc;
    instruction.code.assign(view.begin(), view.end());
    instruction.operand = operand.text;
    instruction.operand_address = operand.address;
    instruction.access = operand.access;
    instruction.feature = decoded.feature;
    rows.append(row_of(instruction));
  }
  if (rows.empty()) {
    elfcore::Instruction instruction;
    instruction.pc = pc;
    instruction.code.assign(view.begin(), view.end());
    instruction.feature = decoded.feature;
    rows.append(row_of(instruction));
  }
  return rows;
}

void read_handler(const elfcore::Memory& memory, const Stacks& stacks, ProcessFindings& found) {
  const Core& core = memory.core();
  const elfcore::ThreadState* const crashed = core.crashed_thread();
  if (!crashed) return;
  const auto index = static_cast<std::size_t>(crashed - core.threads().data());
  if (index < stacks.threads.size()) {
    const auto& frames = stacks.threads[index].frames;
    for (std::size_t i = 0; i + 1 < frames.size(); ++i) {
      if (!frames[i].signal_frame) continue;
      found.caught = elfcore::read_signal_frame(memory, frames[i].sp, frames[i + 1].pc);
      found.handler_stack = elfcore::read_handler_stack(memory, frames[i].sp);
      return;
    }
  }
  found.caught = elfcore::find_left_signal_frame(memory);
}

// Whether another process sent a signal by kill().
bool is_sent(const Core& core, const elfcore::SignalInfo& info) {
  const std::int32_t sender = info.sender_pid.value_or(0);
  const bool own = core.thread(sender) || (core.process() && core.process()->pid == sender);
  return info.code == 0 && sender > 0 && !own;
}

// The faults, or what another process sent, whose handlers run in threads, in the order of these.
std::vector<std::optional<elfcore::SignalInfo>> handled_faults(const elfcore::Memory& memory,
                                                               const Stacks& stacks) {
  constexpr std::int32_t kIll = 4, kBus = 7, kFpe = 8, kSegv = 11;
  std::vector<std::optional<elfcore::SignalInfo>> found(stacks.threads.size());
  for (std::size_t index = 0; index < found.size(); ++index) {
    const auto& frames = stacks.threads[index].frames;
    for (std::size_t i = 0; i + 1 < frames.size(); ++i) {
      if (!frames[i].signal_frame) continue;
      const auto caught = elfcore::read_signal_frame(memory, frames[i].sp, frames[i + 1].pc);
      if (!caught) continue;
      if (is_sent(memory.core(), caught->info) && !found[index]) found[index] = caught->info;
      if (caught->info.code.value_or(0) <= 0) continue;
      for (const std::int32_t fault : {kIll, kBus, kFpe, kSegv}) {
        if (caught->info.number == fault) found[index] = caught->info;
      }
    }
  }
  return found;
}

FaultFindings read_fault(const elfcore::Memory& memory, const elfcore::AddressSpace& space,
                         const elfcore::Registers& registers,
                         const std::optional<elfcore::SignalInfo>& signal) {
  FaultFindings found;
  if (signal && signal->address) found.fault = space.describe(*signal->address);
  found.pc = space.describe(registers.pc());
  found.sp = space.describe(registers.sp());
  found.instruction = elfcore::read_instruction(memory, registers, signal);
  if (found.instruction->operand_address) {
    found.operand = space.describe(*found.instruction->operand_address);
  }
  return found;
}

void add_fault(py::dict& result, const FaultFindings& found) {
  result["fault"] = value_of(found.fault, {});
  result["pc"] = value_of(found.pc, {});
  result["sp"] = value_of(found.sp, {});
  result["operand"] = value_of(found.operand, {});
  result["instruction"] = value_of(found.instruction, {});
}

py::object caught_row(const ProcessFindings& found) {
  if (!found.caught) return py::none();
  py::dict row;
  row["signal"] = row_of(found.caught->info);
  row["in_handler"] = found.caught->in_handler;
  const auto& registers = found.caught->registers;
  py::tuple values(registers.count());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = py::int_(registers.values[i]);
  row["registers"] = values;
  add_fault(row, found.caught_fault);
  return row;
}

}  // namespace

std::optional<unwind::PanicText> panic_text(const elfcore::Memory& memory, const Stacks& stacks) {
  const elfcore::ThreadState* const crashed = memory.core().crashed_thread();
  const auto& threads = memory.core().threads();
  const std::size_t index = crashed ? static_cast<std::size_t>(crashed - threads.data()) : 0;
  if (!crashed || !stacks.names || index >= stacks.threads.size()) return std::nullopt;
  return unwind::find_panic_text(memory, stacks.threads[index], *stacks.names);
}

ProcessFindings read_process(Core& core, const elfcore::Modules& modules, const Stacks& stacks) {
  const elfcore::Memory memory(core, modules);
  ProcessFindings found;
  found.command_line = elfcore::read_command_line(core);
  found.environment = elfcore::read_environment(memory, core.problems());
  found.abort_message = elfcore::read_abort_message(memory);
  found.python_fatal = elfcore::find_python_fatal(memory);
  found.panic = panic_text(memory, stacks);
  // What a check was given to print is what the C library then said.
  if (found.panic && found.panic->language == "C" && found.abort_message) found.panic.reset();
  found.exceptions = elfcore::find_cpp_exceptions(memory, core.problems());
  found.python_version = elfcore::find_python_version(memory);
  const elfcore::Module* const executable = modules.executable();
  found.executable = executable ? executable->path : found.command_line.executable;
  read_handler(memory, stacks, found);
  found.handled = handled_faults(memory, stacks);
  const elfcore::AddressSpace space(
      memory, found.caught ? found.caught->registers.sp() : std::optional<std::uint64_t>());
  found.kinds = space.totals();
  const elfcore::ThreadState* thread = core.crashed_thread();
  const bool crashed = thread != nullptr;
  if (!thread && !core.threads().empty()) thread = &core.threads().front();
  if (thread) {
    found.fault =
        read_fault(memory, space, thread->registers, crashed ? core.signal() : std::nullopt);
  }
  if (found.caught) {
    found.caught_fault = read_fault(memory, space, found.caught->registers, found.caught->info);
  }
  return found;
}

void add_process(py::dict& result, const Core& core, const ProcessFindings& found) {
  const auto& process = core.process();
  const elfcore::ThreadState* const crashed = core.crashed_thread();
  const std::int32_t first = core.threads().empty() ? 0 : core.threads().front().tid;
  // valgrind leaves the process's own ID out of its cores; the main thread comes first in them.
  result["pid"] = process && process->pid != 0 ? process->pid : first;
  result["ppid"] = process ? py::object(py::int_(process->ppid)) : py::none();
  result["uid"] = process ? py::object(py::int_(process->uid)) : py::none();
  result["command"] = process ? text_or_none(process->command) : py::none();
  result["command_line"] = process ? text_or_none(process->command_line) : py::none();
  result["executable"] = text_or_none(found.executable);
  result["crashed_tid"] = crashed ? py::object(py::int_(crashed->tid)) : py::none();
  result["argv"] = texts(found.command_line.arguments);
  result["initial_env"] = texts(found.command_line.environment);
  result["env"] = found.environment ? py::object(texts(*found.environment)) : py::none();
  result["abort_message"] = optional_text(found.abort_message);
  result["panic"] =
      found.panic ? py::object(py::make_tuple(text(found.panic->language), text(found.panic->text)))
                  : py::none();
  result["python_fatal"] = tuple_of(found.python_fatal, {});
  result["exceptions"] = rows_of(found.exceptions);
  result["python_version"] = optional_text(found.python_version);
  add_fault(result, found.fault);
  result["caught"] = caught_row(found);
  result["handler_stack"] =
      found.handler_stack
          ? py::object(py::make_tuple(found.handler_stack->start, found.handler_stack->size))
          : py::none();
  std::uint64_t mapped = 0, dumped = 0;
  for (const elfcore::MemoryKind& row : found.kinds) {
    mapped += row.mapped;
    dumped += row.dumped;
  }
  result["mapped_bytes"] = mapped;
  result["dumped_bytes"] = dumped;
  result["memory_by_kind"] = tuple_of(found.kinds, {});
}

void register_process(py::module_& module) {
  module.def("decode_instruction", &decode, py::arg("machine"), py::arg("code"), py::arg("pc"),
             py::arg("registers"));
}

}  // namespace pm::bind
