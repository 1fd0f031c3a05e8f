// A process that the kernel is dumping: its memory, read where it still is.
//
// The handler of a pipe in core_pattern (core(5)) runs while the process stands still: the kernel
// waits in the middle of writing the core. So its memory can be read at any place, through
// /proc/PID/mem, and a core of 100 GiB need not be read at all.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "elfcore/core.h"
#include "slim/head.h"
#include "slim/pages.h"

namespace pm::slim {

// Fetches what is read of a core from the process itself, in blocks.
class LiveMemory final : public elfcore::MemoryWatch {
 public:
  // Null when the process cannot be read, or is not the one of the core; then `why` says so.
  static std::unique_ptr<LiveMemory> open(const Head& head, std::int32_t pid, std::string& why);
  ~LiveMemory() override;
  LiveMemory(const LiveMemory&) = delete;
  LiveMemory& operator=(const LiveMemory&) = delete;

  // The core, as if all of it had been read. Lives as long as this.
  elfcore::Core& core() noexcept { return *core_; }
  std::uint64_t on_read(std::uint64_t address, std::uint64_t size) noexcept override;
  // The part of the ranges that can be read, fetched.
  std::vector<Range> readable(const std::vector<Range>& ranges) noexcept;

 private:
  static constexpr std::uint64_t kBlock = 16 * kPage;
  LiveMemory() = default;
  bool map(const Head& head, std::string& why);
  // Which pages of the block at an address are there: one bit for each.
  std::uint16_t fetch(std::uint64_t block) noexcept;
  bool has_page(std::uint64_t address) noexcept;

  int fd_ = -1;
  std::uint8_t* bytes_ = nullptr;  // of the core; memory without pages where nothing was fetched
  std::uint64_t size_ = 0;
  std::unique_ptr<elfcore::Core> core_;
  std::unordered_map<std::uint64_t, std::uint16_t> blocks_;
};

// Names of a process's threads by the thread IDs that its core has: those of the process's own PID
// namespace (proc_pid_status(5), NSpid).
std::map<std::int32_t, std::string> read_thread_names(std::int32_t pid);

}  // namespace pm::slim
