// The notes of a core: layouts of 64-bit Linux, the same on x86-64 and aarch64 but for registers.
#include <elf.h>

#include <algorithm>
#include <array>
#include <bit>

#include "elfcore/core.h"

namespace pm::elfcore {
namespace {

constexpr std::uint32_t kNoteSiginfo = 0x53494749;  // NT_SIGINFO, "SIGI"
constexpr std::uint32_t kNoteFile = 0x46494c45;     // NT_FILE, "FILE"
constexpr std::uint32_t kNoteArmTls = 0x401;        // NT_ARM_TLS

// Who else writes ELF cores: their notes carry names of their own, of one thread "NetBSD-CORE@1".
constexpr std::array<std::string_view, 3> kOtherSystems{"FreeBSD", "NetBSD", "OpenBSD"};

constexpr std::size_t kThreadsLimit = 1 << 18;  // eight times what pid_max allows by default

// struct elf_prstatus, include/linux/elfcore.h.
constexpr std::uint64_t kStatusSignal = 12, kStatusPid = 32, kStatusRegisters = 112;
// struct elf_prpsinfo.
constexpr std::uint64_t kInfoUid = 16, kInfoPid = 24, kInfoPpid = 28, kInfoName = 40,
                        kInfoNameSize = 16, kInfoArguments = 56, kInfoArgumentsSize = 80;

std::uint64_t padded(std::uint64_t size) { return (size + 3) & ~std::uint64_t{3}; }

std::string field_text(Bytes content, std::uint64_t offset, std::uint64_t size) {
  return std::string(c_string(clip(content, offset, size), 0));
}

// Which signals carry a fault address: sigaction(2), "The siginfo_t argument".
bool has_fault_address(std::int32_t signal) {
  constexpr std::int32_t kIll = 4, kTrap = 5, kBus = 7, kFpe = 8, kSegv = 11;
  return signal == kIll || signal == kTrap || signal == kBus || signal == kFpe || signal == kSegv;
}

// Default action "Core" in signal(7), but for SIGTRAP, which a debugger itself causes.
bool dumps_core(std::int32_t signal) {
  constexpr std::array kSignals{3, 4, 6, 7, 8, 11, 24, 25, 31};
  return std::find(kSignals.begin(), kSignals.end(), signal) != kSignals.end();
}

// Of instructions, where nobody sent them.
bool is_fault(std::int32_t signal) { return dumps_core(signal) && has_fault_address(signal); }

constexpr std::size_t kOriginalRax = 15;  // struct user_regs_struct: -1 outside of system calls

bool sent_by_process(std::int32_t code) {
  constexpr std::int32_t kUser = 0, kQueue = -1, kMessageQueue = -3, kTkill = -6;
  return code == kUser || code == kQueue || code == kMessageQueue || code == kTkill;
}

}  // namespace

void Core::read_notes(std::uint64_t offset, std::uint64_t size) {
  const Bytes notes = clip(bytes_, offset, size);
  if (notes.size() < size) {
    problems_.add("notes", "cut off after " + std::to_string(notes.size()) + " of " +
                               std::to_string(size) + " bytes");
  }
  Cursor cursor(notes);
  while (cursor.left() >= sizeof(Elf64_Nhdr)) {
    const std::uint64_t start = cursor.offset();
    const auto header = cursor.get<Elf64_Nhdr>();
    if (header.n_namesz == 0 && header.n_descsz == 0 && header.n_type == 0) {
      // Padding, or the hole that an interrupted copy left: gigabytes of nothing to walk through.
      constexpr std::uint64_t kPadding = 4096;
      if (cursor.left() >= kPadding) {
        problems_.add("note at " + hex(offset + start), "zeros where a note should be",
                      "the copy of the core may have a hole; compare it with the original");
      }
      return;
    }
    const Bytes name = cursor.take(padded(header.n_namesz));
    const Bytes content = clip(notes, cursor.offset(), header.n_descsz);
    // gdb leaves out the padding behind the last note.
    cursor.take(std::min(padded(header.n_descsz), cursor.left()));
    if (!cursor.ok() || content.size() < header.n_descsz) {
      problems_.add("note at " + hex(offset + start),
                    "says that it has " + std::to_string(header.n_namesz) + " + " +
                        std::to_string(header.n_descsz) + " bytes, but the notes end before");
      return;
    }
    read_note(header.n_type, c_string(name, 0), content, offset + start);
  }
}

void Core::read_note(std::uint32_t type, std::string_view name, Bytes content,
                     std::uint64_t offset) {
  if (name == "LINUX") {  // FPU and vector state, all but the ARM thread pointer without use here
    if (type == kNoteArmTls && !threads_.empty()) {
      threads_.back().tls = load<std::uint64_t>(content, 0).value_or(0);
    }
    return;
  }
  if (name == kSlimNoteName && type == kSlimNoteType) {
    slim_ = decode_slim(content);
    if (!slim_) {
      problems_.add("note at " + hex(offset),
                    "says that this is a slim core in a way that is not understood; it is read as "
                    "an ordinary one",
                    "was it written by a newer version of postmortem?");
    }
    return;
  }
  if (name != "CORE") {
    for (const std::string_view system : kOtherSystems) {
      if (name.starts_with(system) && other_system_.empty()) other_system_ = system;
    }
    return;
  }
  if (!first_note_) first_note_ = type;
  if (threads_.empty() && (type == NT_AUXV || type == kNoteFile)) map_before_threads_ = true;
  switch (type) {
    case NT_PRSTATUS:
      read_thread(content, offset);
      break;
    case NT_PRPSINFO:
      read_process(content);
      break;
    case NT_AUXV:
      auxv_ = content;
      break;
    case kNoteSiginfo:
      read_signal(content);
      break;
    case kNoteFile:
      read_files(content, offset);
      break;
    default:
      break;
  }
}

void Core::read_thread(Bytes content, std::uint64_t offset) {
  if (threads_.size() >= kThreadsLimit) {
    problems_.add("note at " + hex(offset),
                  "thread beyond the " + std::to_string(kThreadsLimit) + " that are read");
    return;
  }
  ThreadState thread;
  thread.registers.machine = machine_;
  const auto pid = load<std::int32_t>(content, kStatusPid);
  const auto signal = load<std::int16_t>(content, kStatusSignal);
  if (!pid || !signal || !exact(content, kStatusRegisters, thread.registers.count() * 8)) {
    // Both writers begin with the signalled thread: the next one must not be taken for it.
    if (threads_.empty()) first_thread_lost_ = true;
    problems_.add("note at " + hex(offset), "thread status of " + std::to_string(content.size()) +
                                                " bytes is too short to hold its registers");
    return;
  }
  thread.tid = *pid;
  thread.signal = *signal;
  for (std::size_t i = 0; i < thread.registers.count(); ++i) {
    thread.registers.values[i] = *load<std::uint64_t>(content, kStatusRegisters + 8 * i);
  }
  constexpr std::size_t kFsBase = 21;
  if (machine_ == Machine::x86_64) thread.tls = thread.registers.values[kFsBase];
  threads_.push_back(thread);
}

void Core::read_process(Bytes content) {
  ProcessInfo info;
  const auto pid = load<std::int32_t>(content, kInfoPid);
  const auto ppid = load<std::int32_t>(content, kInfoPpid);
  const auto uid = load<std::uint32_t>(content, kInfoUid);
  if (!pid || !ppid || !uid) {
    problems_.add("notes", "process information of " + std::to_string(content.size()) +
                               " bytes is too short");
    return;
  }
  info.pid = *pid;
  info.ppid = *ppid;
  info.uid = *uid;
  info.command = field_text(content, kInfoName, kInfoNameSize);
  info.command_line = field_text(content, kInfoArguments, kInfoArgumentsSize);
  while (info.command_line.ends_with(' ')) info.command_line.pop_back();
  process_ = std::move(info);
}

// include/uapi/asm-generic/siginfo.h: a union behind three ints.
std::optional<SignalInfo> parse_signal_info(Bytes content) {
  const auto number = load<std::int32_t>(content, 0);
  const auto code = load<std::int32_t>(content, 8);
  if (!number || !code) return std::nullopt;
  SignalInfo info;
  info.number = *number;
  info.code = *code;
  constexpr std::int32_t kSiKernel = 0x80;
  if (*code > 0 && *code != kSiKernel && has_fault_address(*number)) {
    info.address = load<std::uint64_t>(content, 16);
  } else if (sent_by_process(*code)) {
    info.sender_pid = load<std::int32_t>(content, 16);
    info.sender_uid = load<std::uint32_t>(content, 20);
  }
  constexpr std::int32_t kSys = 31, kSeccomp = 1;
  if (*number == kSys && *code == kSeccomp) {
    info.system_call = load<std::int32_t>(content, 24);
    info.call_machine = load<std::uint32_t>(content, 28);
  }
  return info;
}

void Core::read_signal(Bytes content) {
  const auto info = parse_signal_info(content);
  if (!info) {
    problems_.add(
        "notes", "signal information of " + std::to_string(content.size()) + " bytes is too short");
    return;
  }
  if (!signal_) signal_ = info;
  if (!threads_.empty() && !threads_.back().info) threads_.back().info = info;
}

// The kernel begins with the status of the crashed thread, all others with the process. gdb puts
// what the process had mapped behind all threads.
void Core::find_origin() {
  if (!first_note_ || *first_note_ == NT_PRSTATUS) return;
  // gdb writes the auxiliary vector and siginfo, valgrind neither.
  const bool bare = auxv_.empty() && !signal_;
  if (*first_note_ != NT_PRPSINFO || map_before_threads_ || bare) {
    origin_ = Origin::tool;
  } else {
    origin_ = Origin::gcore;
  }
}

// The kernel writes the thread that it killed first. gdb writes threads in the order of its list
// (up to 7.x) and the one signal of them all into each status: of its threads the one is meant
// whose own siginfo names a signal that kills; others were stopped by gdb (SIGSTOP, SIGTRAP).
void Core::find_crashed_thread() {
  if (threads_.empty() || first_thread_lost_) return;
  if (origin_ == Origin::kernel) {
    crashed_ = 0;
    if (threads_.front().info) signal_ = threads_.front().info;
    return;
  }
  crashed_ = thread_with_signal();
  if (crashed_ && threads_[*crashed_].info) signal_ = threads_[*crashed_].info;
}

std::optional<std::size_t> Core::thread_with_signal() const {
  std::vector<std::size_t> told, with_status;
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    const ThreadState& thread = threads_[i];
    if (thread.info && dumps_core(thread.info->number)) told.push_back(i);
    if (!thread.info && dumps_core(thread.signal)) with_status.push_back(i);
  }
  const auto same = std::find_if(told.begin(), told.end(), [&](std::size_t i) {
    return threads_[i].info->number == threads_[i].signal;
  });
  if (same != told.end()) return *same;
  if (!told.empty()) return told.front();
  if (with_status.empty()) return std::nullopt;
  // No siginfo (gdb before 7.5, valgrind): a fault does not happen in a system call, and the
  // others mostly wait in one.
  const auto faulted = [&](std::size_t i) {
    return threads_[i].registers.machine == Machine::x86_64 && is_fault(threads_[i].signal) &&
           threads_[i].registers.values[kOriginalRax] == UINT64_MAX;
  };
  if (std::count_if(with_status.begin(), with_status.end(), faulted) == 1) {
    return *std::find_if(with_status.begin(), with_status.end(), faulted);
  }
  return with_status.front();
}

void Core::read_files(Bytes content, std::uint64_t offset) {
  Cursor cursor(content);
  const std::uint64_t count = cursor.u64();
  const std::uint64_t page_size = cursor.u64();
  const std::uint64_t room = cursor.left() / 25;  // three words and a NUL each
  if (!files_.empty()) {
    problems_.add("note at " + hex(offset), "a second list of mapped files; the first is believed");
    return;
  }
  // The names stand behind all rows: with a wrong count, none would belong to its row.
  if (!cursor.ok() || count > room) {
    problems_.add("note at " + hex(offset), "list of mapped files claims " + std::to_string(count) +
                                                " entries in " + std::to_string(content.size()) +
                                                " bytes; no module is known");
    return;
  }
  if (!std::has_single_bit(page_size) || page_size > (1u << 30)) {
    problems_.add("note at " + hex(offset), "list of mapped files claims pages of " +
                                                std::to_string(page_size) +
                                                " bytes; no module is known");
    return;
  }
  // 1 where offsets stand in bytes already (gdb since 2012 writes the page size like the kernel).
  if (page_size >= 4096) page_size_ = page_size;
  Cursor names(content, 16 + 24 * count);
  files_.reserve(count);
  std::uint64_t bad = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    FileMapping file;
    file.start = cursor.u64();
    file.end = cursor.u64();
    const std::uint64_t pages = cursor.u64();
    file.path = names.c_string();
    if (!names.ok()) {
      problems_.add("note at " + hex(offset), "list of mapped files ends after the names of " +
                                                  std::to_string(i) + " of " +
                                                  std::to_string(count) + " entries");
      break;
    }
    if (file.end <= file.start || pages > UINT64_MAX / page_size) {
      ++bad;
      continue;
    }
    file.offset = pages * page_size;
    files_.push_back(file);
  }
  if (bad > 0) {
    problems_.add("note at " + hex(offset),
                  std::to_string(bad) + " mapped files with addresses or offsets that cannot be");
  }
  std::stable_sort(files_.begin(), files_.end(),
                   [](const FileMapping& a, const FileMapping& b) { return a.start < b.start; });
}

}  // namespace pm::elfcore
