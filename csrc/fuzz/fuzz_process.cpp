// Any bytes as a core whose process is asked for: arguments, environment, exceptions, addresses and
// the instruction that it was at.
#include "elfcore/abort_message.h"
#include "elfcore/address.h"
#include "elfcore/command_line.h"
#include "elfcore/core.h"
#include "elfcore/cpp_exception.h"
#include "elfcore/environment.h"
#include "elfcore/instruction.h"
#include "elfcore/modules.h"
#include "elfcore/python_fatal.h"
#include "elfcore/python_version.h"
#include "elfcore/signal_frame.h"
#include "locks/futex.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pm::elfcore;
  try {
    const auto core = Core::parse({data, size});
    // A folder that does not exist: what is fuzzed is the core, not the files of this machine.
    const Modules modules(*core, {"", "/nonexistent"});
    const Memory memory(*core, modules);
    read_command_line(*core);
    read_environment(memory, core->problems());
    read_abort_message(memory);
    find_python_fatal(memory);
    find_cpp_exceptions(memory, core->problems());
    find_python_version(memory);
    pm::locks::read_futex_waits(memory);
    const AddressSpace space(memory);
    space.totals();
    find_left_signal_frame(memory);
    std::size_t left = 16;
    for (const ThreadState& thread : core->threads()) {
      if (left-- == 0) break;
      space.describe(thread.registers.pc());
      space.describe(thread.registers.sp());
      read_instruction(memory, thread.registers, core->signal());
      read_signal_frame(memory, thread.registers.sp(), thread.registers.pc());
      (void)read_handler_stack(memory, thread.registers.sp());
    }
  } catch (const pm::EvidenceError&) {
  }
  return 0;
}
