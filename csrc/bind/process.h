// The process behind a core, beside its threads and modules.
#pragma once

#include <pybind11/pybind11.h>

#include <optional>
#include <string>
#include <vector>

#include "bind/stacks.h"
#include "elfcore/address.h"
#include "elfcore/command_line.h"
#include "elfcore/cpp_exception.h"
#include "elfcore/instruction.h"
#include "elfcore/python_fatal.h"
#include "elfcore/signal_frame.h"
#include "unwind/panic_text.h"

namespace pm::bind {

// Where a thread stood when a signal came, and what it touched.
struct FaultFindings {
  std::optional<elfcore::AddressFacts> fault, pc, sp, operand;
  std::optional<elfcore::Instruction> instruction;
};

struct ProcessFindings {
  elfcore::CommandLine command_line;
  std::optional<std::vector<std::string>> environment;
  std::optional<std::string> abort_message;
  std::optional<elfcore::PythonFatal> python_fatal;
  std::optional<unwind::PanicText> panic;
  std::vector<elfcore::CppException> exceptions;
  std::optional<std::string> python_version;
  std::string executable;
  FaultFindings fault;
  std::optional<elfcore::CaughtSignal> caught;
  FaultFindings caught_fault;
  std::optional<elfcore::HandlerStack> handler_stack;
  std::vector<std::optional<elfcore::SignalInfo>> handled;  // by thread
  std::vector<elfcore::MemoryKind> kinds;
};

// Needs no GIL.
ProcessFindings read_process(elfcore::Core& core, const elfcore::Modules& modules,
                             const Stacks& stacks);
// Fills the keys of RawCore that tell of the process and its end.
void add_process(pybind11::dict& result, const elfcore::Core& core, const ProcessFindings& found);

}  // namespace pm::bind
