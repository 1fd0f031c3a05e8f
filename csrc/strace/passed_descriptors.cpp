// Descriptors that tasks send each other (SCM_RIGHTS, unix(7)).
#include "strace/sockets.h"

namespace pm::strace {
namespace {

constexpr std::size_t kMostAwaited = 256;

// How a control message that carries descriptors is written, with names and with -X raw.
std::string_view rights_mark(std::string_view arguments) {
  if (contains(arguments, "SCM_RIGHTS")) return "SCM_RIGHTS";
  constexpr std::string_view kRaw = "cmsg_level=0x1, cmsg_type=0x1,";
  return contains(arguments, kRaw) ? kRaw.substr(0, kRaw.size() - 1) : std::string_view{};
}

// The numbers in `cmsg_type=SCM_RIGHTS, cmsg_data=[3, 4]`.
std::vector<std::int64_t> rights(std::string_view arguments) {
  std::vector<std::int64_t> numbers;
  const std::string_view mark = rights_mark(arguments);
  std::size_t from = 0;
  while (!mark.empty() && (from = arguments.find(mark, from)) != std::string_view::npos) {
    from += mark.size();
    const std::size_t open = arguments.find("cmsg_data=[", from);
    if (open == std::string_view::npos || open > from + 8) continue;
    const char* const end = arguments.data() + arguments.size();
    Arguments list(arguments.data() + open + 11, end);
    std::string_view word;
    const char* close = skip_argument(arguments.data() + open + 11, end);
    while (close < end && *close == ',') close = skip_argument(close + 1, end);
    while (numbers.size() < 253 && list.next(word)) {  // SCM_MAX_FD
      if (word.data() >= close) break;
      const FdArgument fd = read_fd(word);
      if (fd.valid) numbers.push_back(fd.number);
    }
  }
  return numbers;
}

}  // namespace

void Sockets::sent(const Task& task, std::string_view arguments) {
  if (rights_mark(arguments).empty()) return;
  const std::int32_t through = task.table->at(read_fd(argument_at(arguments, 0)).number);
  const std::int32_t to = through == kNone ? kNone : descriptions_.at(through).peer;
  for (const std::int64_t number : rights(arguments)) {
    const std::int32_t one = task.table->at(number);
    if (one == kNone) continue;
    if (to != kNone && !descriptions_.at(to).awaited.empty()) {
      auto& awaited = descriptions_.at(to).awaited;
      const std::int32_t received = awaited.front();
      awaited.erase(awaited.begin());
      descriptions_.at(received).become(descriptions_.at(one));
      descriptions_.release(received);
      continue;
    }
    descriptions_.use(one);
    auto& queue = to == kNone ? sent_unpaired_ : descriptions_.at(to).flight;
    if (queue.size() >= 4096) {  // nobody reads: forget the oldest
      descriptions_.release(queue.front());
      queue.erase(queue.begin());
    }
    queue.push_back(one);
  }
}

void Sockets::received(Task& task, std::string_view arguments, const Opened& by) {
  if (rights_mark(arguments).empty()) return;
  const std::int32_t through = task.table->at(read_fd(argument_at(arguments, 0)).number);
  const bool cloexec = contains(arguments, "MSG_CMSG_CLOEXEC");
  for (const std::int64_t number : rights(arguments)) {
    std::int32_t one = kNone;
    bool guessed = false;
    if (through != kNone && !descriptions_.at(through).flight.empty()) {
      auto& queue = descriptions_.at(through).flight;
      one = queue.front();
      queue.erase(queue.begin());
    } else if (!sent_unpaired_.empty()) {
      one = sent_unpaired_.front();
      sent_unpaired_.erase(sent_unpaired_.begin());
      guessed = true;
    } else if (through != kNone && options_.by_entry &&
               descriptions_.at(through).awaited.size() < kMostAwaited) {
      one = descriptions_.add();
      descriptions_.use(one);
      descriptions_.at(through).awaited.push_back(one);
    }
    if (guessed) descriptions_.at(one).guessed = true;
    task.table->set(number, one, cloexec, by);
  }
}

}  // namespace pm::strace
