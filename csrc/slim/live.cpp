#include "slim/live.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace pm::slim {
namespace {

constexpr std::size_t kMaxThreads = 1 << 18;
constexpr std::size_t kSmallFile = 64 << 10;

std::string folder_of(std::int32_t pid) { return "/proc/" + std::to_string(pid); }

// A file of /proc; what cannot be read is empty.
std::string read_small(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  std::string text(kSmallFile, '\0');
  std::size_t have = 0;
  while (have < text.size()) {
    const ssize_t count = read(fd, text.data() + have, text.size() - have);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    have += static_cast<std::size_t>(count);
  }
  close(fd);
  text.resize(have);
  return text;
}

// The auxiliary vector has addresses that the kernel draws by lot for each process: two that agree
// are of one process.
bool same_process(const elfcore::Core& core, std::int32_t pid) {
  const std::string live = read_small(folder_of(pid) + "/auxv");
  const std::string_view dumped = as_text(core.auxv_bytes());
  const std::size_t size = std::min(live.size(), dumped.size());
  constexpr std::size_t kRow = 16;
  return size >= 4 * kRow && live.compare(0, size, dumped.substr(0, size)) == 0;
}

// The last number of the line NSpid: the ID in the innermost namespace.
std::int32_t inner_tid(const std::string& status, std::int32_t outer) {
  const std::size_t at = status.find("\nNSpid:");
  if (at == std::string::npos) return outer;
  const std::string line = status.substr(at + 7, status.find('\n', at + 7) - (at + 7));
  const std::size_t last = line.find_last_of(" \t");
  const long value = std::atol(line.c_str() + (last == std::string::npos ? 0 : last + 1));
  return value > 0 ? static_cast<std::int32_t>(value) : outer;
}

}  // namespace

std::unique_ptr<LiveMemory> LiveMemory::open(const Head& head, std::int32_t pid, std::string& why) {
  std::unique_ptr<LiveMemory> live(new LiveMemory);
  live->fd_ = ::open((folder_of(pid) + "/mem").c_str(), O_RDONLY | O_CLOEXEC);
  if (live->fd_ < 0) {
    why = folder_of(pid) + "/mem cannot be opened: " + std::strerror(errno);
    return nullptr;
  }
  if (head.notes_late || !same_process(*head.core, pid)) {
    why = "process " + std::to_string(pid) + " is not the one of this core";
    return nullptr;
  }
  if (!live->map(head, why)) return nullptr;
  return live;
}

// Address space for the whole core costs nothing: pages appear where something is fetched. It is
// shared, for what is private counts as data at once, of which there is a limit (RLIMIT_DATA).
bool LiveMemory::map(const Head& head, std::string& why) {
  size_ = std::max<std::uint64_t>(head.expected_bytes, head.bytes.size());
  void* const data = mmap(nullptr, size_, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    why = "no address space for a core of " + std::to_string(size_) + " bytes";
    return false;
  }
  madvise(data, size_, MADV_NOHUGEPAGE);  // one page of 2 MiB for each block would be waste
  bytes_ = static_cast<std::uint8_t*>(data);
  std::copy(head.bytes.begin(), head.bytes.end(), bytes_);
  core_ = elfcore::Core::parse({bytes_, size_});
  core_->set_watch(this);
  return true;
}

LiveMemory::~LiveMemory() {
  if (bytes_) munmap(bytes_, size_);
  if (fd_ >= 0) close(fd_);
}

std::uint16_t LiveMemory::fetch(std::uint64_t block) noexcept {
  std::uint16_t pages = 0;
  for (std::uint64_t at = block; at < block + kBlock;) {
    const elfcore::Segment* const piece = core_->piece_at(at);
    const std::uint64_t end = piece ? std::min(block + kBlock, piece->start + piece->present) : 0;
    if (end <= at || at % kPage != 0) {
      at = (at / kPage + 1) * kPage;
      continue;
    }
    std::uint8_t* const to = bytes_ + piece->offset + (at - piece->start);
    const ssize_t count = pread(fd_, to, end - at, static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    const std::uint64_t got = count > 0 ? static_cast<std::uint64_t>(count) : 0;
    for (std::uint64_t page = 0; page * kPage < got; ++page) {
      pages = static_cast<std::uint16_t>(pages | 1u << ((at - block) / kPage + page));
    }
    // A page that cannot be read (a device's, a poisoned one) is passed over.
    at += std::max(got / kPage * kPage, kPage);
  }
  return pages;
}

bool LiveMemory::has_page(std::uint64_t address) noexcept {
  const std::uint64_t block = address / kBlock * kBlock;
  try {
    const auto [known, fresh] = blocks_.try_emplace(block, std::uint16_t{0});
    if (fresh) known->second = fetch(block);
    return (known->second >> ((address - block) / kPage) & 1) != 0;
  } catch (...) {  // out of memory
    return false;
  }
}

// As far as pages follow each other, and a block further than asked for: callers that look for the
// end of something themselves get enough of it.
std::uint64_t LiveMemory::on_read(std::uint64_t address, std::uint64_t size) noexcept {
  const std::uint64_t wanted = std::min(size, UINT64_MAX - address - kBlock) + kBlock;
  std::uint64_t at = address;
  while (at - address < wanted && has_page(at)) at = (at / kPage + 1) * kPage;
  return at - address;
}

std::vector<Range> LiveMemory::readable(const std::vector<Range>& ranges) noexcept {
  std::vector<Range> result;
  for (const Range& range : ranges) {
    for (std::uint64_t at = range.start; at < range.end; at += kPage) {
      if (!has_page(at)) continue;
      if (!result.empty() && result.back().end == at) {
        result.back().end += kPage;
      } else {
        result.push_back({at, at + kPage});
      }
    }
  }
  return result;
}

std::map<std::int32_t, std::string> read_thread_names(std::int32_t pid) {
  std::map<std::int32_t, std::string> names;
  const std::string folder = folder_of(pid) + "/task";
  DIR* const list = opendir(folder.c_str());
  if (!list) return names;
  while (const dirent* const entry = readdir(list)) {
    const long outer = std::atol(entry->d_name);
    if (outer <= 0 || names.size() >= kMaxThreads) continue;
    const std::string task = folder + "/" + entry->d_name;
    std::string name = read_small(task + "/comm");
    if (name.ends_with('\n')) name.pop_back();
    if (name.empty()) continue;
    names.emplace(inner_tid(read_small(task + "/status"), static_cast<std::int32_t>(outer)), name);
  }
  closedir(list);
  return names;
}

}  // namespace pm::slim
