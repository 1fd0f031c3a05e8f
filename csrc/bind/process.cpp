#include "bind/process.h"

#include <pybind11/stl.h>

#include <algorithm>

#include "bind/register.h"
#include "bind/values.h"
#include "elfcore/abort_message.h"
#include "elfcore/environment.h"
#include "elfcore/python_version.h"

namespace py = pybind11;

namespace pm::bind {
namespace {

using elfcore::Core;

py::object address_row(const std::optional<elfcore::AddressFacts>& facts) {
  if (!facts) return py::none();
  py::dict row;
  row["value"] = facts->value;
  row["mapped"] = facts->mapped;
  row["start"] = optional_int(facts->start);
  row["end"] = optional_int(facts->end);
  row["permissions"] = text_or_none(facts->permissions);
  row["kind"] = text_or_none(facts->kind);
  row["path"] = text_or_none(facts->path);
  row["file_offset"] = optional_int(facts->file_offset);
  row["above_start"] = optional_int(facts->above_start);
  row["above_kind"] = text_or_none(facts->above_kind);
  row["below_end"] = optional_int(facts->below_end);
  return row;
}

py::object instruction_row(const std::optional<elfcore::Instruction>& instruction) {
  if (!instruction) return py::none();
  py::dict row;
  row["pc"] = instruction->pc;
  row["code"] = raw(instruction->code);
  row["operand"] = optional_text(instruction->operand);
  row["operand_address"] = optional_int(instruction->operand_address);
  row["access"] = text_or_none(instruction->access);
  row["feature"] = text_or_none(instruction->feature);
  row["target"] = optional_int(instruction->target);
  row["transfer"] = text_or_none(instruction->transfer);
  row["alignment"] = instruction->alignment;
  row["divisor"] = optional_int(instruction->divisor);
  return row;
}

py::list exception_rows(const std::vector<elfcore::CppException>& exceptions) {
  py::list rows;
  for (const elfcore::CppException& exception : exceptions) {
    py::dict row;
    row["tid"] = exception.tid;
    row["type"] = text(exception.type);
    row["what"] = optional_text(exception.what);
    row["found_by"] = exception.found_by;
    row["state"] = exception.state;
    row["base_types"] = py::tuple(texts(exception.base_types));
    rows.append(row);
  }
  return rows;
}

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
    rows.append(instruction_row(instruction));
  }
  if (rows.empty()) {
    elfcore::Instruction instruction;
    instruction.pc = pc;
    instruction.code.assign(view.begin(), view.end());
    instruction.feature = decoded.feature;
    rows.append(instruction_row(instruction));
  }
  return rows;
}

std::optional<elfcore::CaughtSignal> caught_signal(const elfcore::Memory& memory,
                                                   const Stacks& stacks) {
  const Core& core = memory.core();
  const elfcore::ThreadState* const crashed = core.crashed_thread();
  if (!crashed) return std::nullopt;
  const auto index = static_cast<std::size_t>(crashed - core.threads().data());
  if (index < stacks.threads.size()) {
    const auto& frames = stacks.threads[index].frames;
    for (std::size_t i = 0; i + 1 < frames.size(); ++i) {
      if (!frames[i].signal_frame) continue;
      return elfcore::read_signal_frame(memory, frames[i].sp, frames[i + 1].pc);
    }
  }
  return elfcore::find_left_signal_frame(memory);
}

// The faults whose handlers run in threads, in the order of the threads.
std::vector<std::optional<elfcore::SignalInfo>> handled_faults(const elfcore::Memory& memory,
                                                               const Stacks& stacks) {
  constexpr std::int32_t kIll = 4, kBus = 7, kFpe = 8, kSegv = 11;
  std::vector<std::optional<elfcore::SignalInfo>> found(stacks.threads.size());
  for (std::size_t index = 0; index < found.size(); ++index) {
    const auto& frames = stacks.threads[index].frames;
    for (std::size_t i = 0; i + 1 < frames.size(); ++i) {
      if (!frames[i].signal_frame) continue;
      const auto caught = elfcore::read_signal_frame(memory, frames[i].sp, frames[i + 1].pc);
      if (!caught || caught->info.code.value_or(0) <= 0) continue;
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
  result["fault"] = address_row(found.fault);
  result["pc"] = address_row(found.pc);
  result["sp"] = address_row(found.sp);
  result["operand"] = address_row(found.operand);
  result["instruction"] = instruction_row(found.instruction);
}

py::object caught_row(const ProcessFindings& found) {
  if (!found.caught) return py::none();
  py::dict row;
  row["signal"] = signal_info_row(found.caught->info);
  row["in_handler"] = found.caught->in_handler;
  const auto& registers = found.caught->registers;
  py::tuple values(registers.count());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = py::int_(registers.values[i]);
  row["registers"] = values;
  add_fault(row, found.caught_fault);
  return row;
}

}  // namespace

py::dict signal_info_row(const elfcore::SignalInfo& signal) {
  py::dict row;
  row["number"] = signal.number;
  row["code"] = optional_int(signal.code);
  row["address"] = optional_int(signal.address);
  row["sender_pid"] = optional_int(signal.sender_pid);
  row["sender_uid"] = optional_int(signal.sender_uid);
  row["system_call"] = optional_int(signal.system_call);
  row["call_machine"] = optional_int(signal.call_machine);
  return row;
}

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
  found.exceptions = elfcore::find_cpp_exceptions(memory, core.problems());
  found.python_version = elfcore::find_python_version(memory);
  const elfcore::Module* const executable = modules.executable();
  found.executable = executable ? executable->path : found.command_line.executable;
  found.caught = caught_signal(memory, stacks);
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
  result["python_fatal"] = found.python_fatal
                               ? py::object(py::make_tuple(text(found.python_fatal->function),
                                                           text(found.python_fatal->message)))
                               : py::none();
  result["exceptions"] = exception_rows(found.exceptions);
  result["python_version"] = optional_text(found.python_version);
  add_fault(result, found.fault);
  result["caught"] = caught_row(found);
  py::list kinds;
  std::uint64_t mapped = 0, dumped = 0;
  for (const elfcore::MemoryKind& row : found.kinds) {
    kinds.append(py::make_tuple(text(row.kind), row.mapped, row.dumped));
    mapped += row.mapped;
    dumped += row.dumped;
  }
  result["mapped_bytes"] = mapped;
  result["dumped_bytes"] = dumped;
  result["memory_by_kind"] = kinds;
}

void register_process(py::module_& module) {
  module.def("decode_instruction", &decode, py::arg("machine"), py::arg("code"), py::arg("pc"),
             py::arg("registers"));
}

}  // namespace pm::bind
