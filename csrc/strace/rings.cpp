// io_uring: what is asked for through a ring, and fails, is in no log (io_uring(7)).
#include "strace/rings.h"

#include "strace/file_tables.h"
#include "strace/line.h"

namespace pm::strace {
namespace {

constexpr std::int64_t kEntriesForEpoll = 256;
constexpr std::uint64_t kSqpoll = 2;
constexpr std::int64_t kNearEpoll = 4;  // numbers between those of the epoll and of its ring

// The flags in `io_uring_setup(8, {flags=IORING_SETUP_SQPOLL, …})`.
std::string_view setup_flags(std::string_view arguments) noexcept {
  constexpr std::string_view kFlags = "{flags=";
  const std::size_t at = arguments.find(kFlags);
  if (at == std::string_view::npos) return {};
  const std::string_view flags = arguments.substr(at + kFlags.size());
  return flags.substr(0, flags.find(','));
}

// Whether a table has an epoll descriptor a little below `number`.
bool is_behind_epoll(const Table& table, const Descriptions& all, std::int64_t number) {
  for (std::int64_t before = number - 1; before >= 0 && before >= number - kNearEpoll; --before) {
    const std::int32_t one = table.at(before);
    if (one != kNone && all.at(one).label.starts_with("epoll_create")) return true;
  }
  return false;
}

// The same of the lines before `line`, those next to it: made by the same task, and not closed.
bool is_behind_epoll(const char* begin, const char* line, std::uint32_t pid,
                     std::int64_t number) noexcept {
  while (line > begin) {
    const char* const end = line - 1;
    const void* const newline = memrchr(begin, '\n', static_cast<std::size_t>(end - begin));
    line = newline ? static_cast<const char*>(newline) + 1 : begin;
    const Line read = read_line(line, end);
    const bool made = read.name.starts_with("epoll_create") && read.leader.pid == pid;
    if (!made && read.name != "close") continue;
    const std::int64_t one = made ? read_result(read.arguments, read.end).value
                                  : number_in(view(read.arguments, read.end));
    const bool near = one < number && one >= number - kNearEpoll;
    if (made || near) return made && near;
  }
  return false;
}

// Whether io_uring_enter() can have passed a request on: not where it is forbidden, or was called
// to see whether there is such a thing.
bool may_have_entered(const Result& result) noexcept {
  if (!result.failed()) return true;
  for (const std::string_view waited : {"EINTR", "ETIME", "EAGAIN", "EBUSY"}) {
    if (result.error == waited) return true;
  }
  return false;
}

}  // namespace

std::int64_t entered_for_all(std::string_view given) noexcept {
  Arguments arguments(given.data(), given.data() + given.size());
  std::string_view fd, asked, awaited, flags;
  if (!arguments.next(fd) || !arguments.next(asked) || !arguments.next(awaited) ||
      !arguments.next(flags) || !has_flag(flags, "IORING_ENTER_GETEVENTS", 1)) {
    return -1;
  }
  const FdArgument all = read_fd(asked);
  return all.valid && all.number == read_fd(awaited).number ? all.number : -1;
}

RingUse ring_use(const char* begin, const char* line, const char* end) noexcept {
  const Line read = read_line(line, end);
  if (!read.arguments) return RingUse::unknown;
  const std::string_view all = view(read.arguments, read.end);
  if (read.name == "io_uring_enter") {
    const bool fits = read.shape == Shape::resumed || entered_for_all(all) >= 0;
    return fits ? RingUse::entered : RingUse::unknown;
  }
  if (read.name != "io_uring_setup") return RingUse::none;
  const Result result = read_result(read.arguments, read.end);
  if (read.shape == Shape::call && result.failed()) return RingUse::none;
  const std::string_view flags = setup_flags(all);
  const bool fits = read.shape == Shape::call && result.worked() && !flags.empty() &&
                    !has_flag(flags, "IORING_SETUP_SQPOLL", kSqpoll) &&
                    number_in(argument_at(all, 0)) == kEntriesForEpoll &&
                    is_behind_epoll(begin, line, read.leader.pid, result.value);
  return fits ? RingUse::made : RingUse::unknown;
}

// libuv makes two rings behind the epoll descriptor of each loop: one for files, which the kernel
// polls (off in most builds), and one of 256 entries for epoll_ctl() alone (uv__epoll_ctl_prep(),
// src/unix/linux.c), which nearly every log of torchrun has.
void FileTables::ring_made(Task& task, const Event& event, const Opened& by) {
  const std::string_view all = view(event.arguments, event.arguments_end);
  const std::string_view flags = setup_flags(all);
  const bool polled = has_flag(flags, "IORING_SETUP_SQPOLL", kSqpoll);
  io_uring_ |= polled;
  task.table->set(event.result.value, created(task, event, by), event.cloexec, by);
  const std::int32_t made = task.table->at(event.result.value);
  if (made == kNone || polled || flags.empty()) return;
  descriptions_.at(made).for_epoll =
      number_in(argument_at(all, 0)) == kEntriesForEpoll &&
      is_behind_epoll(*task.table, descriptions_, event.result.value);
}

// libuv asks for all that it has gathered and waits for all of it, in one call: `all_of` is how
// many these are, and negative where a call asks for other than it waits for. That is not libuv.
void FileTables::ring_entered(const Task& task, std::int64_t fd, std::int64_t all_of,
                              const Result& result) {
  if (io_uring_ || !may_have_entered(result)) return;
  const std::int32_t ring = task.table->at(fd);
  const bool of_libuv = ring != kNone && descriptions_.at(ring).for_epoll;
  io_uring_ = !of_libuv || all_of < 0;
}

}  // namespace pm::strace
