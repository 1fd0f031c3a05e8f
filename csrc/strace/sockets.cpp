#include "strace/sockets.h"

#include <algorithm>

namespace pm::strace {
namespace {

constexpr std::size_t kMostAddresses = 10'000;
constexpr std::size_t kMostWaiting = 1024;  // connections to one address that nobody has taken
constexpr std::size_t kMostWatched = 256;
constexpr std::size_t kLongestMessage = 2048;
constexpr std::size_t kLongestWait = 200;
constexpr std::size_t kLongestAddress = 512;

// What two ends of one connection have in common: the port, or the path of a unix socket.
std::string meeting_point(std::string_view address) {
  const std::string words = address_words(address);
  const std::size_t colon = words.rfind(':');
  if (address.find("AF_INET") == std::string_view::npos || colon == std::string::npos) return words;
  return "port " + words.substr(colon + 1);
}

}  // namespace

void Sockets::announce_connect(std::int32_t one) {
  const std::string where = meeting_point(descriptions_.at(one).label);
  if (where.empty() || (connecting_.size() >= kMostAddresses && !connecting_.contains(where))) {
    return;
  }
  const auto accepted = accepting_.find(where);
  if (accepted != accepting_.end() && descriptions_.at(one).peer == kNone) {
    auto& waiting = accepted->second;
    while (!waiting.empty()) {
      const std::int32_t other = waiting.front();
      waiting.erase(waiting.begin());
      Description& made = descriptions_.at(other);
      if (other == one || !made.live || made.kind != Kind::socket || made.peer != kNone) continue;
      made.peer = one;
      descriptions_.at(one).peer = other;
      return;
    }
  }
  auto& queue = connecting_[where];
  if (std::find(queue.begin(), queue.end(), one) != queue.end()) return;
  if (queue.size() >= kMostWaiting) queue.erase(queue.begin());
  queue.push_back(one);
}

void Sockets::connected(const Task& task, const Event& event, const Opened& by) {
  const std::int32_t one = task.table->at(event.a);
  if (one == kNone || !options_.statistics || !processes_.counted(task)) return;
  Description& socket = descriptions_.at(one);
  const std::string peer = address_words(socket.label);
  if (peer.empty()) return;
  const Result& result = event.result;
  std::string outcome = result.error.empty() ? "connected" : std::string(result.error);
  if (!result.known) outcome = "interrupted";
  if (socket.connection != kNone) {
    Connection& known = connection(socket);
    if (known.peer == peer && known.in_progress) {  // asked again how it went
      if (outcome == "EISCONN") outcome = "connected";
      if (outcome != "EALREADY") known.result = outcome;
      return;
    }
  }
  if (connections_.size() >= kMostConnections) {
    socket.connection = kNone;
    return;
  }
  socket.connection = static_cast<std::int32_t>(connections_.size());
  Connection& made = connections_.emplace_back();
  made.pid = task.pid;
  made.fd = event.a;
  made.peer = peer;
  made.result = outcome;
  made.place = by.place;
  made.nanoseconds = event.nanoseconds;
  made.in_progress = outcome == "EINPROGRESS" || outcome == "interrupted";
  made.name_server = peer.ends_with(":53");
}

// Keeps what is said to name servers, and what they say. A socket need not be connected to one.
void Sockets::keep_name_message(const Task& task, const Event& event, const Description& socket,
                                Place place) {
  if (name_messages_.size() >= kMostNameMessages) return;
  const bool connected = socket.connection != kNone;
  if (connected && !connection(socket).name_server) return;
  std::string room;
  const std::string_view arguments = full_arguments(task, event, room);
  if (!connected && !contains(arguments, "htons(53)")) return;
  const std::string_view data = argument_at(arguments, 1);
  bool quoted;
  const std::string_view raw = quoted_part(data, quoted);
  if (!quoted) return;
  name_messages_.push_back({task.pid, place, event.op == Op::read,
                            std::string(raw.substr(0, kLongestMessage)),
                            address_words(argument_at(arguments, 4))});
}

void Sockets::silent(std::int32_t description, const Event& event, std::string_view text,
                     Place place) {
  if (descriptions_.at(description).connection == kNone) return;
  Connection& known = connection(descriptions_.at(description));
  if (known.in_progress && (known.result == "EINPROGRESS" || known.result == "timeout")) {
    known.result = "timeout";
    known.nanoseconds += event.nanoseconds;
    return;
  }
  ++known.silent_waits;
  if (known.silent_waits == 1) known.silent_nanoseconds = 0;
  known.silent_nanoseconds += event.nanoseconds;
  known.silent = place;
  known.silent_text.assign(text.substr(0, kLongestWait));
}

// The oldest connect() to the address at which the listener is bound is the other end.
void Sockets::accepted(const Task& task, const Event& event, std::int32_t index, const Opened& by) {
  Description& made = descriptions_.at(index);
  const std::string peer =
      address_words(argument_at(view(event.arguments, event.arguments_end), 1));
  made.label.clear();
  if (!peer.empty()) made.path = peer;
  if (options_.statistics && processes_.counted(task) && connections_.size() < kMostConnections) {
    made.connection = static_cast<std::int32_t>(connections_.size());
    Connection& one = connections_.emplace_back();
    one.pid = task.pid;
    one.fd = event.result.value;
    one.peer = peer.empty() ? "unknown" : peer;
    one.result = "accepted";
    one.place = by.place;
    one.nanoseconds = event.nanoseconds;
  }
  const std::int32_t listener = task.table->at(event.a);
  if (listener == kNone) return;
  const std::string where = meeting_point(descriptions_.at(listener).label);
  if (where.empty()) return;
  const auto found = connecting_.find(where);
  if (found == connecting_.end() || found->second.empty()) {
    // A call that waited stands before the one that it waited for, where the order is that of
    // their beginnings.
    if (options_.by_entry && accepting_.size() < kMostAddresses) {
      auto& waiting = accepting_[where];
      if (waiting.size() < kMostWaiting) waiting.push_back(index);
    }
    return;
  }
  auto& queue = found->second;
  while (!queue.empty()) {
    const std::int32_t other = queue.front();
    queue.erase(queue.begin());
    Description& caller = descriptions_.at(other);
    if (other == index || !caller.live || caller.kind != Kind::socket || caller.peer != kNone ||
        meeting_point(caller.label) != where) {
      continue;
    }
    caller.peer = index;
    made.peer = other;
    break;
  }
}

void Sockets::told_error(const Task& task, const Event& event) {
  const std::int32_t one = task.table->at(event.a);
  if (one == kNone || descriptions_.at(one).connection == kNone) return;
  Connection& known = connection(descriptions_.at(one));
  if (!known.in_progress) return;
  std::string_view value = argument_at(view(event.arguments, event.arguments_end), 3);
  if (!value.starts_with('[')) return;
  value = value.substr(1, value.find(']') - 1);
  if (value == "0") {
    known.result = "connected";
    return;
  }
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"111", "ECONNREFUSED"}, {"110", "ETIMEDOUT"},  {"113", "EHOSTUNREACH"},
      {"101", "ENETUNREACH"},  {"104", "ECONNRESET"}, {"2", "ENOENT"},
      {"13", "EACCES"},        {"112", "EHOSTDOWN"},  {"103", "ECONNABORTED"},
  };
  for (const auto& [number, name] : kNames) {
    if (value == number) value = name;
  }
  known.result = value.starts_with('E') ? std::string(value.substr(0, 32))
                                        : "errno " + std::string(value.substr(0, 8));
}

void Sockets::addressed(const Task& task, const Event& event) {
  const std::int32_t one = task.table->at(event.a);
  if (one == kNone) return;
  const std::string_view all = view(event.arguments, event.arguments_end);
  descriptions_.at(one).label.assign(argument_at(all, 1).substr(0, kLongestAddress));
  if (event.op == Op::connect) announce_connect(one);
}

void Sockets::told_address(const Task& task, const Event& event) {
  const std::int32_t one = task.table->at(event.a);
  if (one == kNone || !contains(descriptions_.at(one).label, "htons(0)")) return;
  const std::string_view all = view(event.arguments, event.arguments_end);
  descriptions_.at(one).label.assign(argument_at(all, 1).substr(0, kLongestAddress));
}

void Sockets::watched(const Task& task, const Event& event) {
  const std::int32_t one = task.table->at(event.a);
  if (one == kNone) return;
  auto& numbers = descriptions_.at(one).watched;
  std::erase(numbers, event.b);
  const bool added = event.flags.starts_with("EPOLL_CTL_ADD") || event.flags.starts_with("0x1");
  if (added && numbers.size() < kMostWatched) numbers.push_back(event.b);
}

void Sockets::transferred(const Task& task, const Event& event, Place place) {
  const std::int32_t one = task.table->at(event.a);
  if (one == kNone || !processes_.counted(task)) return;
  Description& through = descriptions_.at(one);
  const bool out = event.op == Op::write;
  (out ? through.written_bytes : through.read_bytes) +=
      static_cast<std::uint64_t>(event.result.value);
  ++(out ? through.writes : through.reads);
  if (through.kind != Kind::socket) return;
  if (through.connection != kNone) {
    Connection& known = connection(through);
    if (event.result.value > 0 && known.in_progress) {  // whatever connect() said, it is one now
      known.result = "connected";
      known.in_progress = false;
    }
    known.asked = out;
    if (!out) known.silent_waits = 0;
  }
  keep_name_message(task, event, through, place);
}

}  // namespace pm::strace
