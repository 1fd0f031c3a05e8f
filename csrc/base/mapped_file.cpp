#include "base/mapped_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>

namespace pm {
namespace {

struct Range {
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::uintptr_t> end{0};
};

// Read by the signal handler, so: fixed size, atomics only. A file beyond the last slot is mapped
// all the same, just unguarded.
std::array<Range, 1024> ranges;
std::atomic<unsigned> lost{0};
struct sigaction previous_action;
std::mutex guard_mutex;
int guard_count = 0;

int register_range(const void* data, std::size_t size) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    std::uintptr_t free_slot = 0;
    if (ranges[i].begin.compare_exchange_strong(free_slot, begin)) {
      ranges[i].end.store(begin + size);
      return static_cast<int>(i);
    }
  }
  return -1;
}

// End of the mapped file that holds the address; 0 if none of ours does.
std::uintptr_t mapped_end(std::uintptr_t address) {
  for (const Range& range : ranges) {
    const std::uintptr_t end = range.end.load();
    if (address >= range.begin.load() && address < end) return end;
  }
  return 0;
}

// Async-signal-safe: mmap is a bare system call.
void on_sigbus(int number, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  if (const std::uintptr_t end = mapped_end(address)) {
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const std::uintptr_t begin = address & ~(page - 1);
    void* const where = reinterpret_cast<void*>(begin);
    // Each page replaced splits the mapping, and a process may have 65,530 of them: after many,
    // the file is taken to be gone from here on.
    constexpr unsigned kSingly = 256;
    const std::size_t size =
        lost.load() < kSingly ? page : ((end - begin) + page - 1) & ~(page - 1);
    if (mmap(where, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
        MAP_FAILED) {
      lost.fetch_add(1);
      return;
    }
  }
  if (previous_action.sa_flags & SA_SIGINFO) {
    previous_action.sa_sigaction(number, info, context);
  } else if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN) {
    previous_action.sa_handler(number);
  } else {
    signal(number, SIG_DFL);  // returning faults again, this time for good
  }
}

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path, std::string& error,
                                                   Reading reading) {
  // Looked at first, since to open a device may do something. O_NONBLOCK: opening a FIFO that has
  // come there meanwhile must not wait for a writer.
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) {
    error = std::strerror(errno);
    return nullptr;
  }
  const bool regular = S_ISREG(status.st_mode);
  const int fd = regular ? ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
  if (fd < 0 && regular) {
    error = std::strerror(errno);
    return nullptr;
  }
  if (!regular || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    error = S_ISDIR(status.st_mode) ? "is a directory" : "is not a regular file";
    if (fd >= 0) close(fd);
    return nullptr;
  }
  std::shared_ptr<MappedFile> file(new MappedFile);
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size > 0) {
    void* const data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
      error = std::strerror(errno);
      close(fd);
      return nullptr;
    }
    madvise(data, size, reading == Reading::here_and_there ? MADV_RANDOM : MADV_SEQUENTIAL);
    file->bytes_ = {static_cast<const std::uint8_t*>(data), size};
    file->slot_ = register_range(data, size);
  }
  close(fd);
  return file;
}

MappedFile::~MappedFile() {
  if (slot_ >= 0) {
    Range& range = ranges[static_cast<std::size_t>(slot_)];
    range.end.store(0);
    range.begin.store(0);
  }
  if (!bytes_.empty()) munmap(const_cast<std::uint8_t*>(bytes_.data()), bytes_.size());
}

SigbusGuard::SigbusGuard() {
  const std::lock_guard lock(guard_mutex);
  if (guard_count++ > 0) return;
  lost.store(0);
  struct sigaction action{};
  action.sa_sigaction = on_sigbus;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, &previous_action);
}

SigbusGuard::~SigbusGuard() {
  const std::lock_guard lock(guard_mutex);
  if (--guard_count == 0) sigaction(SIGBUS, &previous_action, nullptr);
}

unsigned SigbusGuard::lost_pages() const noexcept { return lost.load(); }

}  // namespace pm
