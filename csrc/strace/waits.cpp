#include "strace/waits.h"

#include <algorithm>

namespace pm::strace {
namespace {

constexpr std::size_t kMostAwaited = 8;
constexpr std::size_t kMostHolders = 6;
constexpr std::uint64_t kMostSlotsSearched = 50'000'000;

// The numbers in `[{fd=3, events=POLLIN}, {fd=4</x>, …}]`, or in a set of select(), `[3 5]`.
std::vector<std::int64_t> listed(std::string_view argument) {
  std::vector<std::int64_t> numbers;
  const bool poll = contains(argument, "{fd=");
  const char* at = argument.data();
  const char* const end = at + argument.size();
  while (at < end && numbers.size() < kMostAwaited) {
    if (poll) {
      const void* const next = memmem(at, static_cast<std::size_t>(end - at), "{fd=", 4);
      if (!next) break;
      at = static_cast<const char*>(next) + 4;
    } else {
      while (at < end && !is_digit(*at)) ++at;
    }
    std::uint64_t number = 0;
    if (at >= end || !read_digits(at, end, number)) {
      ++at;
      continue;
    }
    numbers.push_back(static_cast<std::int64_t>(std::min<std::uint64_t>(number, 1U << 30)));
    at = skip_annotation(at, end);
  }
  return numbers;
}

// Those that are named, by number: a descriptor may be open a million times.
void keep_first(std::vector<Holder>& holders) {
  std::sort(holders.begin(), holders.end(), [](const Holder& a, const Holder& b) {
    return std::pair(a.pid, a.fd) < std::pair(b.pid, b.fd);
  });
  if (holders.size() > kMostHolders) holders.resize(kMostHolders);
}

}  // namespace

FutexUse& FutexUses::at(std::uint32_t space, std::uint64_t address) {
  const Key key{address, space};
  const auto found = now_.find(key);
  if (found != now_.end()) return found->second;
  if (now_.size() >= kMost) {
    before_ = std::move(now_);
    now_ = Map();
  }
  const auto old = before_.find(key);
  return now_[key] = old == before_.end() ? FutexUse{} : old->second;
}

const FutexUse* FutexUses::find(std::uint32_t space, std::uint64_t address) const {
  for (const Map* const map : {&now_, &before_}) {
    const auto found = map->find({address, space});
    if (found != map->end()) return &found->second;
  }
  return nullptr;
}

void Waits::absorb(const Tallies& tallies, const BlockOrigin& origin) {
  tallies.futexes.each([&](const FutexTally& tally) {
    const Task* const task = processes_.find(tally.pid, origin.file_pid);
    FutexUse& use = futexes_.at(tally.shared || !task ? 0 : task->leader, tally.address);
    const auto later = [&](Place& place, std::uint32_t& pid, std::uint32_t number) {
      if (number == 0) return;
      const Place now = origin.place(number - 1);
      if (place.line != 0 && place.file == origin.file && place.line > now.line) return;
      place = now;
      pid = task ? task->pid : tally.pid;
    };
    later(use.woken, use.woken_by, tally.woke);
    later(use.passed, use.passed_by, tally.passed);
  });
}

std::vector<std::int64_t> Waits::descriptors_of(const Task& task, std::string_view name,
                                                std::string_view arguments) const {
  if (name.starts_with("epoll_")) {
    const std::int32_t one = task.table->at(read_fd(argument_at(arguments, 0)).number);
    if (one == kNone) return {};
    std::vector<std::int64_t> numbers = descriptions_.at(one).watched;
    if (numbers.size() > kMostAwaited) numbers.resize(kMostAwaited);
    return numbers;
  }
  if (name.ends_with("poll") || name.starts_with("ppoll")) return listed(argument_at(arguments, 0));
  if (!name.starts_with("select") && !name.starts_with("pselect") && name != "_newselect")
    return {};
  std::vector<std::int64_t> numbers;
  for (const unsigned index : {1U, 2U}) {
    const std::string_view set = argument_at(arguments, index);
    if (!set.starts_with('[')) continue;
    for (const std::int64_t number : listed(set)) numbers.push_back(number);
  }
  if (numbers.size() > kMostAwaited) numbers.resize(kMostAwaited);
  return numbers;
}

Awaited Waits::awaited(const Task& task, const FdArgument& fd) {
  Awaited one;
  one.fd = fd.number;
  one.target = files_.target_of_fd(task, fd);
  const std::int32_t mine = task.table->at(fd.number);
  if (mine == kNone) return one;
  const Description& description = descriptions_.at(mine);
  if (description.kind != Kind::pipe && description.kind != Kind::socket) return one;
  const std::int32_t other = description.peer;
  one.paired = other != kNone;
  if (!one.paired || slots_searched_ > kMostSlotsSearched) return one;
  std::unordered_set<const Table*> searched;
  for (const auto& [pid, holder] : processes_.tasks()) {
    if (!holder->live || !searched.insert(holder->table.get()).second) continue;
    slots_searched_ += holder->table->size() + 1;
    if (slots_searched_ > kMostSlotsSearched) break;
    // Of threads that share a table, the process stands for all.
    const std::uint32_t who = holder->leader ? holder->leader : pid;
    holder->table->each([&one, other, who](std::int64_t number, const Slot& slot) {
      if (slot.description != other) return true;
      ++one.holder_count;
      one.holders.push_back({who, number});
      if (one.holders.size() > 100 * kMostHolders) keep_first(one.holders);
      return true;
    });
  }
  keep_first(one.holders);
  return one;
}

Blocked Waits::blocked_in(const Task& task, std::string_view line, Place place) {
  Blocked blocked;
  blocked.place = place;
  std::string padded(line);
  padded.append(kPadding, '\0');
  std::string plain;
  const char* begin = padded.data();
  std::size_t size = line.size();
  if (line.find('\x1b') != std::string_view::npos) {
    strip_colors(line, plain);
    size = plain.size();
    plain.append(kPadding, '\0');
    begin = plain.data();
  }
  const Line read = read_line(begin, begin + size);
  if (!read.arguments) return blocked;
  blocked.since = seconds_of(read.leader.time);
  blocked.syscall = std::string(read.name);
  const std::string_view arguments = view(read.arguments, read.end);
  blocked.text = blocked.syscall + "(" + std::string(arguments.substr(0, kLongestText));
  const std::uint16_t index = find_call(read.name.data(), read.name.size());
  for (const std::int64_t number : descriptors_of(task, read.name, arguments)) {
    blocked.awaited.push_back(awaited(task, {true, number, {}, false}));
  }
  if (read.name == "futex") {
    const auto address = static_cast<std::uint64_t>(number_in(argument_at(arguments, 0)));
    const bool shared = !contains(argument_at(arguments, 1), "_PRIVATE");
    const FutexUse* const use = futexes_.find(shared ? 0 : task.leader, address);
    if (use) blocked.futex = *use;
  }
  if (index == kUnknownCall || call_at(index).role == Role::none) return blocked;
  std::int64_t fd = -1;
  const Target target = files_.target_of(task, call_at(index), arguments, Event{}, fd);
  if (target.origin != Origin::unknown || !target.path.empty()) blocked.target = target;
  if (fd >= 0 && blocked.awaited.empty() && call_at(index).op != Op::wait) {
    Awaited one = awaited(task, {true, fd, {}, false});
    one.target = target;
    blocked.awaited.push_back(std::move(one));
  }
  return blocked;
}

}  // namespace pm::strace
