// The threads of a live process, stopped for a moment by ptrace(2).
//
// PTRACE_SEIZE and PTRACE_INTERRUPT send no signal, so nothing of this shows to the process or its
// parent. Whatever becomes of us, the kernel lets the threads go on when their tracer ends
// (exit_ptrace in kernel/ptrace.c); those that somebody else had stopped stay stopped.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "elfcore/registers.h"

namespace pm::live {

inline constexpr std::uint32_t kNoteArmTls = 0x401;  // NT_ARM_TLS, which older <elf.h> lack

// How the registers of a thread were had.
enum class Known { stopped, from_kernel, nothing };

struct ThreadRegisters {
  std::int32_t tid = 0;
  Known known = Known::nothing;
  elfcore::Registers registers;
  std::uint64_t tls = 0;
};

// The processor that this code runs on; cores of others can be read, processes cannot.
elfcore::Machine own_machine() noexcept;

class Tracees {
 public:
  Tracees() = default;
  // Lets all go on. A thread that never came to a stop (in an uninterruptible wait) is let go when
  // the calling thread ends.
  ~Tracees();
  Tracees(const Tracees&) = delete;
  Tracees& operator=(const Tracees&) = delete;

  // Stops all threads, those too that are started meanwhile. 0, or the errno of ptrace(2) where it
  // is refused for all; threads that have not stopped at the deadline are left as they are.
  int stop(std::int32_t pid, std::chrono::steady_clock::time_point deadline);
  void release() noexcept;

  bool all_stopped() const noexcept;
  // Registers of the threads that stopped; for the others what the kernel shows of a blocked one.
  std::vector<ThreadRegisters> registers(std::int32_t pid) const;

 private:
  struct Tracee {
    std::int32_t tid = 0;
    bool stopped = false;
    bool gone = false;
    bool refused = false;  // another tracer has it
  };
  bool know(std::int32_t tid) const noexcept;
  void wait_for_stops(std::chrono::steady_clock::time_point deadline);
  static void look(Tracee& tracee) noexcept;

  std::vector<Tracee> tracees_;
};

// What /proc/PID/task/TID/syscall shows of all threads: program counter, stack pointer, and the
// arguments of the call that a thread is blocked in. Nothing is stopped.
std::vector<ThreadRegisters> blocked_registers(std::int32_t pid);

// Thread IDs of a process, its leader first; empty: it is gone.
std::vector<std::int32_t> list_threads(std::int32_t pid);

}  // namespace pm::live
