#include "live/proc_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace pm::live {

std::string process_folder(std::int32_t pid) { return "/proc/" + std::to_string(pid); }

std::string task_folder(std::int32_t pid, std::int32_t tid) {
  return process_folder(pid) + "/task/" + std::to_string(tid);
}

std::string read_proc_file(const std::string& path, std::size_t limit) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  std::string text;
  while (text.size() < limit) {
    const std::size_t before = text.size();
    text.resize(before + std::min<std::size_t>(limit - before, 64 << 10));
    const ssize_t count = read(fd, text.data() + before, text.size() - before);
    text.resize(before + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
  }
  close(fd);
  return text;
}

}  // namespace pm::live
