// Arguments of a call as strace writes them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "strace/text.h"

namespace pm::strace {

// Behind the argument that starts at `at`: at its comma, at the bracket that closes the list, or at
// `end`. Strings with escapes, nested brackets, /* comments */ and <annotations> are skipped whole.
const char* skip_argument(const char* at, const char* end) noexcept;

// Behind a descriptor's annotation `<…>` or `<…>(deleted)`, or `at` if none starts there.
const char* skip_annotation(const char* at, const char* end) noexcept;

// The arguments one after another, without the `name=` that -N puts before them.
class Arguments {
 public:
  // `at` is behind the opening bracket.
  Arguments(const char* at, const char* end) noexcept : at_(at), end_(end) {}

  bool next(std::string_view& argument) noexcept;
  // Whether the closing bracket was reached, and what stands behind it.
  bool closed() const noexcept { return at_ < end_ && *at_ == ')'; }
  const char* behind() const noexcept { return closed() ? at_ + 1 : end_; }

 private:
  const char* at_;
  const char* end_;
};

// Argument number `index`, or nothing.
std::string_view argument_at(std::string_view arguments, unsigned index) noexcept;

constexpr std::int64_t kWorkingDirectory = -100;  // AT_FDCWD

// A descriptor as an argument: 3, 3</path>, 0x3, AT_FDCWD, -100 /* AT_FDCWD */, 0xffffff9c.
struct FdArgument {
  bool valid = false;
  std::int64_t number = -1;
  std::string_view annotation;  // what stands between < and >, nothing if there is none
  bool deleted = false;
};
FdArgument read_fd(std::string_view argument) noexcept;

// What the kernel puts behind the path of a file without a name (d_path(), fs/d_path.c). Strace
// writes it behind the annotation, and did so within it before 5.19: 3</path (deleted)>.
constexpr std::string_view kDeletedWord = " (deleted)";
bool take_deleted(std::string_view& annotation) noexcept;

// What is between the quotes of the first string in an argument; `quoted` says whether there is
// one.
std::string_view quoted_part(std::string_view argument, bool& quoted) noexcept;

// A string with strace's escapes undone: \" \\ \n \t \r \f \v \ooo \xhh.
void unescape(std::string_view raw, std::string& out);

// What a new task shares with the one that made it, by name and by bit (linux/sched.h).
struct CloneFlag {
  std::string_view name;
  std::uint64_t bit;
};
constexpr CloneFlag kCloneVm{"CLONE_VM", 0x100};
constexpr CloneFlag kCloneFs{"CLONE_FS", 0x200};
constexpr CloneFlag kCloneFiles{"CLONE_FILES", 0x400};
constexpr CloneFlag kCloneThread{"CLONE_THREAD", 0x10000};
constexpr CloneFlag kCloneNewPid{"CLONE_NEWPID", 0x20000000};

// Whether the arguments of clone() or clone3(), or their first half, hold a flag.
bool clone_shares(std::string_view arguments, const CloneFlag& flag) noexcept;

// `fcntl(3, F_SETFD, FD_CLOEXEC)`: whether a flag is set, by its name or, with -X raw, by its bits.
bool has_flag(std::string_view argument, std::string_view name, std::uint64_t bits) noexcept;

}  // namespace pm::strace
