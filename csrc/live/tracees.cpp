#include "live/tracees.h"

#include <dirent.h>
#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "live/proc_file.h"

namespace pm::live {
namespace {

constexpr std::size_t kMaxThreads = 1 << 16;
constexpr int kRounds = 16;  // of looking for threads that were started while others were stopped

using elfcore::Machine;
using elfcore::Registers;

void nap() noexcept {
  const timespec time{0, 200'000};
  nanosleep(&time, nullptr);
}

bool read_registers(ThreadRegisters& thread) noexcept {
  thread.registers.machine = own_machine();
  iovec room{thread.registers.values.data(), thread.registers.count() * 8};
  void* const which = reinterpret_cast<void*>(static_cast<std::uintptr_t>(NT_PRSTATUS));
  if (ptrace(PTRACE_GETREGSET, thread.tid, which, &room) != 0) return false;
  if (own_machine() == Machine::x86_64) {
    constexpr std::size_t kFsBase = 21;
    thread.tls = thread.registers.values[kFsBase];
  } else {
    iovec tls{&thread.tls, sizeof thread.tls};
    void* const note = reinterpret_cast<void*>(static_cast<std::uintptr_t>(kNoteArmTls));
    if (ptrace(PTRACE_GETREGSET, thread.tid, note, &tls) != 0) thread.tls = 0;
  }
  return true;
}

// "202 0x7f… 0x189 … 0x7ffd… 0x7f…": number, six arguments, stack pointer, program counter; "-1 sp
// pc" outside of a system call; "running". proc_pid_syscall in fs/proc/base.c.
void take_blocked(ThreadRegisters& thread, const std::string& text) {
  thread.registers.machine = own_machine();
  std::vector<std::uint64_t> words;
  const char* at = text.c_str();
  while (words.size() < 9) {
    char* end = nullptr;
    const std::uint64_t word = std::strtoull(at, &end, 0);
    if (end == at) break;
    words.push_back(word);
    at = end;
  }
  auto& values = thread.registers.values;
  const bool x86 = own_machine() == Machine::x86_64;
  const std::size_t sp = x86 ? 19 : 31, pc = x86 ? 16 : 32;
  if (words.size() == 3) {
    values[sp] = words[1];
    values[pc] = words[2];
  } else if (words.size() == 9) {
    constexpr std::size_t kX86[] = {14, 13, 12, 7, 9, 8};  // rdi, rsi, rdx, r10, r8, r9
    for (std::size_t i = 0; i < 6; ++i) values[x86 ? kX86[i] : i] = words[1 + i];
    values[x86 ? 15 : 8] = words[0];  // orig_rax, x8
    values[sp] = words[7];
    values[pc] = words[8];
  } else {
    return;
  }
  if (values[pc] != 0) thread.known = Known::from_kernel;
}

ThreadRegisters blocked(std::int32_t pid, std::int32_t tid) {
  ThreadRegisters thread;
  thread.tid = tid;
  thread.registers.machine = own_machine();
  take_blocked(thread, read_proc_file(task_folder(pid, tid) + "/syscall"));
  return thread;
}

}  // namespace

Machine own_machine() noexcept {
#if defined(__aarch64__)
  return Machine::aarch64;
#else
  return Machine::x86_64;
#endif
}

std::vector<std::int32_t> list_threads(std::int32_t pid) {
  std::vector<std::int32_t> tids;
  DIR* const list = opendir((process_folder(pid) + "/task").c_str());
  if (!list) return tids;
  while (const dirent* const entry = readdir(list)) {
    const long tid = std::atol(entry->d_name);
    if (tid > 0 && tids.size() < kMaxThreads) tids.push_back(static_cast<std::int32_t>(tid));
  }
  closedir(list);
  std::stable_partition(tids.begin(), tids.end(), [pid](std::int32_t tid) { return tid == pid; });
  return tids;
}

std::vector<ThreadRegisters> blocked_registers(std::int32_t pid) {
  std::vector<ThreadRegisters> found;
  for (const std::int32_t tid : list_threads(pid)) found.push_back(blocked(pid, tid));
  return found;
}

Tracees::~Tracees() { release(); }

bool Tracees::know(std::int32_t tid) const noexcept {
  return std::any_of(tracees_.begin(), tracees_.end(),
                     [tid](const Tracee& tracee) { return tracee.tid == tid; });
}

int Tracees::stop(std::int32_t pid, std::chrono::steady_clock::time_point deadline) {
  int refusal = 0;
  bool any = false;
  for (int round = 0; round < kRounds; ++round) {
    const std::size_t before = tracees_.size();
    for (const std::int32_t tid : list_threads(pid)) {
      if (know(tid)) continue;
      tracees_.push_back({tid});
      Tracee& tracee = tracees_.back();
      if (ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0) {
        refusal = errno;
        tracee.gone = refusal == ESRCH;  // it has ended since it was listed
        tracee.refused = !tracee.gone;
      } else if (ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr) != 0) {
        tracee.gone = true;
      } else {
        any = true;
      }
    }
    if (tracees_.size() == before) break;
    wait_for_stops(deadline);
  }
  return any ? 0 : refusal != 0 ? refusal : ESRCH;
}

void Tracees::look(Tracee& tracee) noexcept {
  int status = 0;
  const pid_t found = waitpid(tracee.tid, &status, __WALL | WNOHANG);
  if (found < 0 && errno == ECHILD) {
    tracee.gone = true;
  } else if (found == tracee.tid) {
    if (WIFSTOPPED(status)) {
      // A signal that came first is delivered, and the stop asked for follows.
      if (status >> 16 == PTRACE_EVENT_STOP) {
        tracee.stopped = true;
      } else if (ptrace(PTRACE_CONT, tracee.tid, nullptr, static_cast<long>(WSTOPSIG(status))) !=
                 0) {
        tracee.gone = true;
      }
    } else {
      tracee.gone = true;
    }
  }
}

void Tracees::wait_for_stops(std::chrono::steady_clock::time_point deadline) {
  while (true) {
    bool waiting = false;
    for (Tracee& tracee : tracees_) {
      if (tracee.stopped || tracee.gone || tracee.refused) continue;
      look(tracee);
      waiting = waiting || (!tracee.stopped && !tracee.gone);
    }
    if (!waiting || std::chrono::steady_clock::now() >= deadline) return;
    nap();
  }
}

void Tracees::release() noexcept {
  for (const Tracee& tracee : tracees_) {
    if (tracee.stopped) ptrace(PTRACE_DETACH, tracee.tid, nullptr, nullptr);
  }
  tracees_.clear();
}

bool Tracees::all_stopped() const noexcept {
  return std::all_of(tracees_.begin(), tracees_.end(),
                     [](const Tracee& tracee) { return tracee.stopped || tracee.gone; });
}

std::vector<ThreadRegisters> Tracees::registers(std::int32_t pid) const {
  std::vector<ThreadRegisters> found;
  for (const Tracee& tracee : tracees_) {
    if (tracee.gone) continue;
    ThreadRegisters thread;
    thread.tid = tracee.tid;
    if (tracee.stopped && read_registers(thread)) {
      thread.known = Known::stopped;
    } else {
      thread = blocked(pid, tracee.tid);
    }
    found.push_back(thread);
  }
  return found;
}

}  // namespace pm::live
