// Open file descriptions, and the tables in which tasks have numbers for them (open(2), dup(2)).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "strace/calls.h"
#include "strace/shared.h"

namespace pm::strace {

enum class Kind : std::uint8_t { unknown, file, socket, pipe, memfd, device, other };

// A working directory, shared by the tasks that share it. `known` is false for the one that a log
// begins with, until a getcwd() or an annotation tells it.
struct Directory {
  SharedText path;
  bool known = false;
  std::shared_ptr<Directory> below;  // what `path` is relative to while that is not known
  unsigned depth = 0;                // of those below

  Directory() = default;
  Directory(SharedText to, bool is_known, std::shared_ptr<Directory> under);
};

struct Place {
  std::uint32_t file = 0;
  std::uint64_t line = 0;  // from 1
};

struct Opened {
  Place place;
  std::uint32_t pid = 0;
  std::uint16_t call = kUnknownCall;
};

constexpr std::int32_t kNone = -1;

struct FileCount;

// What open(2) calls an open file description: one per open(), shared by all that dup() and fork().
struct Description {
  std::string path;   // empty if not known; of a socket its peer
  std::string flags;  // as written: O_WRONLY|O_CREAT
  std::string label;  // what it is, if it has no path: "eventfd2", or the name of a memfd
  FileCount* counted = nullptr;     // of the file of that path, for the summary; null: look it up
  std::shared_ptr<Directory> base;  // of a path that is relative to a directory not known (yet)
  Opened opened;
  std::uint64_t read_bytes = 0;
  std::uint64_t written_bytes = 0;
  std::uint64_t reads = 0;
  std::uint64_t writes = 0;
  std::vector<std::int64_t> watched;  // numbers that an epoll descriptor watches
  std::vector<std::int32_t> flight;   // descriptions on their way to this socket, by SCM_RIGHTS
  std::vector<std::int32_t> awaited;  // received before the log has who sent them (-ff)
  std::int32_t peer = kNone;          // the other end of a pipe or socket pair
  std::int32_t connection = kNone;    // among those of the summary
  std::uint32_t target_pid = 0;       // of a pidfd
  std::uint32_t users = 0;
  Kind kind = Kind::unknown;
  bool deleted = false;
  bool nameless = false;     // O_TMPFILE: `path` is the directory
  bool guessed = false;      // paired by order alone
  bool writes_only = false;  // the end of a pipe that is written to
  bool for_epoll = false;    // an io_uring for epoll_ctl() alone
  bool live = false;

  // Takes over what another one is; both stand for one file from now on.
  void become(const Description& other);
  // The path with what is known by now of where it began.
  std::string whole_path() const;
};

// All descriptions. An index stays good as long as somebody uses it.
class Descriptions {
 public:
  std::int32_t add();
  Description& at(std::int32_t index) { return all_[static_cast<std::size_t>(index)]; }
  const Description& at(std::int32_t index) const { return all_[static_cast<std::size_t>(index)]; }
  void use(std::int32_t index) {
    if (index != kNone) ++at(index).users;
  }
  // The last user's release makes the place free; `on_close` sees the description before.
  void release(std::int32_t index);
  void renamed(const std::string& from, const std::string& to);
  void removed(const std::string& path);
  // Whether a path may be held that is longer than what the log has of it: there is room for many,
  // not for any number of them.
  bool has_room(std::size_t bytes) noexcept { return (derived_bytes_ += bytes) <= kMostDerived; }
  // Whether so many mappings may be copied, of all that ever are.
  bool may_copy(std::size_t mappings) noexcept { return (copied_ += mappings) <= kMostCopied; }
  std::vector<Description>& all() { return all_; }
  const std::vector<Description>& all() const { return all_; }
  void (*on_close)(void* context, const Description&) = nullptr;
  void* context = nullptr;

 private:
  void forget(std::int32_t index);

  std::vector<Description> all_;
  static constexpr std::uint64_t kMostDerived = std::uint64_t{256} << 20;
  static constexpr std::uint64_t kMostCopied = 5'000'000;
  // Descriptions that are looked at for the sake of names that change, in all.
  static constexpr std::uint64_t kMostSearched = 1'000'000'000;

  std::vector<std::int32_t> free_;
  std::uint64_t derived_bytes_ = 0;
  std::uint64_t searched_ = 0;
  std::uint64_t copied_ = 0;
};

// Longer than any path that a call takes or gives (PATH_MAX); of a longer one, which descriptors of
// folders below folders make, the end stands behind an ellipsis.
constexpr std::size_t kLongestPath = 4096;
std::string bounded_path(std::string path);

// A path without `//`, `.` and `..`; `..` is taken by its word, as links are not known.
std::string normal_path(std::string path);

}  // namespace pm::strace
