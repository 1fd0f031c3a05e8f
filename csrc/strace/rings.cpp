// io_uring: what is asked for through a ring, and fails, is in no log (io_uring(7)).
#include "strace/file_tables.h"

namespace pm::strace {
namespace {

constexpr std::int64_t kEntriesForEpoll = 256;

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
  for (std::int64_t before = number - 1; before >= 0 && before >= number - 4; --before) {
    const std::int32_t one = table.at(before);
    if (one != kNone && all.at(one).label.starts_with("epoll_create")) return true;
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

// libuv makes two rings behind the epoll descriptor of each loop: one for files, which the kernel
// polls (off in most builds), and one of 256 entries for epoll_ctl() alone (uv__epoll_ctl_prep(),
// src/unix/linux.c), which nearly every log of torchrun has.
void FileTables::ring_made(Task& task, const Event& event, const Opened& by) {
  constexpr std::uint64_t kSqpoll = 2;
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
