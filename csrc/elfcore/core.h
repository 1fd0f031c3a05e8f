// An ELF core file: headers, notes, segments, and the memory that was dumped.
//
// Formats: System V gABI for ELF; fs/binfmt_elf.c and include/uapi/linux/elf.h of Linux for the
// notes; gdb/linux-tdep.c for what gcore writes. Only ELF64 little endian, x86-64 and aarch64.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "elfcore/registers.h"
#include "elfcore/slim_note.h"

namespace pm::elfcore {

inline constexpr std::uint32_t kExecute = 1, kWrite = 2, kRead = 4;  // PF_X, PF_W, PF_R

// One PT_LOAD. Of its `size` bytes of address space, the first `present` are in the file; the rest
// was not dumped (clean file pages, MADV_DONTDUMP) or is cut off.
struct Segment {
  std::uint64_t start = 0;
  std::uint64_t size = 0;
  std::uint64_t offset = 0;   // in the core file
  std::uint64_t dumped = 0;   // p_filesz as promised
  std::uint64_t present = 0;  // what the file really has of it
  std::uint32_t flags = 0;

  std::uint64_t end() const noexcept { return start + size; }
  bool contains(std::uint64_t address) const noexcept {
    return address >= start && address - start < size;
  }
};

// One row of NT_FILE: part of a file that was mapped. The path points into the core.
struct FileMapping {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t offset = 0;  // in the mapped file, in bytes
  std::string_view path;
  bool inferred = false;  // by the loader's list, in no note
};

struct LoadedFile;  // loaded_files.h

struct SignalInfo {
  std::int32_t number = 0;
  std::optional<std::int32_t> code;
  std::optional<std::uint64_t> address;  // only where the code says that there is one
  std::optional<std::int32_t> sender_pid;
  std::optional<std::uint32_t> sender_uid;
  std::optional<std::int32_t> system_call;    // of SIGSYS by seccomp: the number of the call
  std::optional<std::uint32_t> call_machine;  // whose numbering that is (AUDIT_ARCH_…)
};

struct ThreadState {
  std::int32_t tid = 0;
  std::int32_t signal = 0;  // pr_cursig
  Registers registers;
  std::uint64_t tls = 0;  // thread pointer: fs_base, or TPIDR_EL0 from NT_ARM_TLS
  // NT_SIGINFO behind its status: the kernel writes one for the crashed thread, gdb one for each.
  std::optional<SignalInfo> info;
};

// siginfo_t as notes and signal frames hold it; nothing when it is too short.
std::optional<SignalInfo> parse_signal_info(Bytes content);

// NT_PRPSINFO.
struct ProcessInfo {
  std::int32_t pid = 0;
  std::int32_t ppid = 0;
  std::uint32_t uid = 0;
  std::string command;       // pr_fname, at most 15 bytes
  std::string command_line;  // pr_psargs, at most 79 bytes
};

// Who wrote it: the kernel; gdb; or something else that begins with the process (valgrind's vgcore,
// createdump of .NET, minidump-2-core).
enum class Origin { kernel, gcore, tool };

// Is told of every read of the process's memory: to remember what was of use (csrc/slim), or to
// fetch it from elsewhere first.
class MemoryWatch {
 public:
  // What a reader of bytes without a known end is taken to look at.
  static constexpr std::uint64_t kGlimpse = 256;
  virtual ~MemoryWatch() = default;
  // Returns how many bytes from the address on may be read; UINT64_MAX: no limit.
  virtual std::uint64_t on_read(std::uint64_t address, std::uint64_t size) noexcept = 0;
};

class Core {
 public:
  // Throws EvidenceError when the file is not a core that can be read at all.
  static std::unique_ptr<Core> open(const std::string& path);
  // The same over bytes that outlive the core (fuzzing, tests).
  static std::unique_ptr<Core> parse(Bytes bytes);

  Bytes bytes() const noexcept { return bytes_; }
  Machine machine() const noexcept { return machine_; }
  Origin origin() const noexcept { return origin_; }
  std::uint64_t page_size() const noexcept { return page_size_; }
  std::uint64_t expected_size() const noexcept { return expected_size_; }
  bool truncated() const noexcept { return expected_size_ > bytes_.size(); }

  // By address.
  const std::vector<Segment>& segments() const noexcept { return segments_; }
  // By address.
  const std::vector<FileMapping>& files() const noexcept { return files_; }
  // As the notes have them.
  const std::vector<ThreadState>& threads() const noexcept { return threads_; }
  const std::optional<SignalInfo>& signal() const noexcept { return signal_; }
  const std::optional<ProcessInfo>& process() const noexcept { return process_; }
  // Value of an auxiliary vector entry (AT_*, include/uapi/linux/auxvec.h).
  std::optional<std::uint64_t> auxv(std::uint64_t type) const noexcept;
  // The auxiliary vector as the kernel wrote it, to find its copy on the stack.
  Bytes auxv_bytes() const noexcept { return auxv_; }

  // The thread that the fatal signal hit; null in a snapshot of a live process.
  const ThreadState* crashed_thread() const noexcept {
    return crashed_ ? &threads_[*crashed_] : nullptr;
  }
  // What the stacks told of cores whose notes do not say it.
  void set_crashed_thread(std::optional<std::size_t> index) noexcept {
    crashed_ = index;
    if (index && threads_[*index].info) signal_ = threads_[*index].info;
  }
  const ThreadState* thread(std::int32_t tid) const noexcept;

  const Segment* segment_at(std::uint64_t address) const noexcept;
  // The first segment that starts above the address.
  const Segment* segment_above(std::uint64_t address) const noexcept;
  // The last segment that ends at or below the address.
  const Segment* segment_below(std::uint64_t address) const noexcept;
  const FileMapping* file_at(std::uint64_t address) const noexcept;
  // Dumped bytes from the address on, as far as they lie together in the file; maybe none.
  Bytes dumped_at(std::uint64_t address) const noexcept;

  // The pieces of memory in the file, by address. The same as `segments`, but in a slim core, whose
  // segments are those of the core that it was made from.
  const std::vector<Segment>& pieces() const noexcept { return slim_ ? pieces_ : segments_; }
  const Segment* piece_at(std::uint64_t address) const noexcept;
  // What a slim core says of itself; null: it is an ordinary one.
  const SlimInfo* slim() const noexcept { return slim_ ? &*slim_ : nullptr; }
  // The note segments in the file: offset and size, as promised.
  const std::vector<std::pair<std::uint64_t, std::uint64_t>>& note_ranges() const noexcept {
    return note_ranges_;
  }

  // Adds rows that NT_FILE does not have; those that overlap one it has are left out.
  void add_files(const std::vector<LoadedFile>& rows);

  // `watch` must outlive all reads; null: nobody watches.
  void set_watch(MemoryWatch* watch) noexcept { watch_ = watch; }
  MemoryWatch* watch() const noexcept { return watch_; }

  Problems& problems() noexcept { return problems_; }
  const Problems& problems() const noexcept { return problems_; }

 private:
  Core() = default;
  void read_headers();
  std::uint64_t count_program_headers() const;
  void read_segments(std::uint64_t count);
  void read_notes(std::uint64_t offset, std::uint64_t size);
  void read_note(std::uint32_t type, std::string_view name, Bytes content, std::uint64_t offset);
  void read_thread(Bytes content, std::uint64_t offset);
  void read_process(Bytes content);
  void read_signal(Bytes content);
  void find_origin();
  void find_crashed_thread();
  std::optional<std::size_t> thread_with_signal() const;
  void refuse_other_systems() const;
  void read_files(Bytes content, std::uint64_t offset);
  void check_segments();
  void check_threads();
  void take_slim_segments();

  std::shared_ptr<const MappedFile> file_;
  Bytes bytes_;
  Machine machine_ = Machine::x86_64;
  Origin origin_ = Origin::kernel;
  std::uint64_t page_size_ = 4096;
  std::uint64_t expected_size_ = 0;
  std::uint64_t program_headers_ = 0;  // offset
  std::vector<Segment> segments_;
  std::vector<Segment> pieces_;  // of a slim core
  std::optional<SlimInfo> slim_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> note_ranges_;
  MemoryWatch* watch_ = nullptr;
  std::vector<FileMapping> files_;
  std::deque<std::string> names_;  // of files that are in no note
  std::vector<ThreadState> threads_;
  std::optional<SignalInfo> signal_;
  std::optional<ProcessInfo> process_;
  Bytes auxv_;
  std::optional<std::size_t> crashed_;
  std::optional<std::uint32_t> first_note_;  // type
  bool map_before_threads_ = false;          // NT_AUXV or NT_FILE came before any thread
  std::string other_system_;                 // whose notes they are, if not Linux's
  bool first_thread_lost_ = false;
  Problems problems_;
};

// Text for messages: 0x and hexadecimal digits.
std::string hex(std::uint64_t value);

}  // namespace pm::elfcore
