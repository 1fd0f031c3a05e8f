#include "base/underway.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>

namespace pm::underway {
namespace {

constexpr std::size_t kState = 0, kTurn = 8, kLength = 16, kPath = 20;
constexpr char kReading = 1;

std::atomic<char*> page{nullptr};
std::mutex writing;
std::map<std::string, std::string> known;  // why not to open a file; filled before anything is read

std::string path_in(const char* from) {
  std::uint32_t size = 0;
  std::memcpy(&size, from + kLength, sizeof size);
  return {from + kPath, std::min<std::size_t>(size, kPathBytes - kPath)};
}

void write_path(char* to, const std::string& path) {
  const auto size = static_cast<std::uint32_t>(std::min(path.size(), kPathBytes - kPath));
  std::memcpy(to + kLength, &size, sizeof size);
  std::memcpy(to + kPath, path.data(), size);
  std::uint64_t turn = 0;
  std::memcpy(&turn, to + kTurn, sizeof turn);
  ++turn;
  std::memcpy(to + kTurn, &turn, sizeof turn);
}

}  // namespace

void watch(char* to) noexcept { page.store(to); }

void refuse(const std::string& path, const std::string& why) { known.emplace(path, why); }

Opening::Opening(const std::string& path) {
  if (!known.empty()) {
    for (const auto& [name, why] : known) {
      const bool below = name.ends_with('/') && path.starts_with(name);
      if (below || path == name) refused_ = &why;
    }
  }
  char* const to = page.load();
  if (!to || to[kState] != kReading) return;
  const std::lock_guard lock(writing);
  before_ = path_in(to);
  write_path(to, path);
}

Opening::~Opening() {
  char* const to = page.load();
  if (!to || before_.empty()) return;
  const std::lock_guard lock(writing);
  write_path(to, before_);
}

}  // namespace pm::underway
