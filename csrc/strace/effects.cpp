// What calls do to open files: names, ends, messages.

#include "strace/task.h"
#include "strace/tracker.h"

namespace pm::strace {
namespace {

constexpr std::size_t kMostAwaitedByEpoll = 256;
constexpr std::uint64_t kTmpfile = 020200000;  // O_TMPFILE: __O_TMPFILE | O_DIRECTORY

Kind kind_of_path(std::string_view path) noexcept {
  if (path.starts_with("/dev/") && !path.starts_with("/dev/shm/") &&
      !path.starts_with("/dev/mqueue/") && !path.starts_with("/dev/hugepages/")) {
    return Kind::device;
  }
  return Kind::file;
}

}  // namespace

// The description that a path like /proc/self/fd/3 stands for, or kNone.
std::int32_t Tracker::through_proc(Task& task, const std::string& path) {
  std::string_view rest = path;
  Task* owner = &task;
  if (rest.starts_with("/dev/fd/")) {
    rest.remove_prefix(8);
  } else if (rest == "/dev/stdin" || rest == "/dev/stdout" || rest == "/dev/stderr") {
    return task.table->at(rest == "/dev/stdin" ? 0 : rest == "/dev/stdout" ? 1 : 2);
  } else if (rest.starts_with("/proc/")) {
    rest.remove_prefix(6);
    if (rest.starts_with("self/fd/")) {
      rest.remove_prefix(8);
    } else if (rest.starts_with("thread-self/fd/")) {
      rest.remove_prefix(15);
    } else {
      const char* at = rest.data();
      const char* const end = at + rest.size();
      std::uint64_t pid = 0;
      if (!read_digits(at, end, pid) || !starts(at, end, "/fd/")) return kNone;
      const auto found = tasks_.find(static_cast<std::uint32_t>(pid));
      if (found == tasks_.end()) return kNone;
      owner = found->second.get();
      rest = view(at + 4, end);
    }
  } else {
    return kNone;
  }
  const char* at = rest.data();
  std::uint64_t number = 0;
  if (!read_digits(at, rest.data() + rest.size(), number) || at != rest.data() + rest.size()) {
    return kNone;
  }
  return owner->table->at(static_cast<std::int64_t>(number));
}

// A path below a folder, as long as there is room for what the log does not have in one piece.
std::string Tracker::below(const std::string& folder, const std::string& path) {
  if (!descriptions_.has_room(folder.size())) {
    const std::size_t slash = path.rfind('/');
    return "\u2026/" + path.substr(slash == std::string::npos ? 0 : slash + 1);
  }
  return bounded_path(normal_path(folder + "/" + path));
}

// The path that `raw` names for a task. Where it begins in a directory not known (yet), `base` is
// that directory and the path is relative.
std::string Tracker::resolve(Task& task, const FdArgument& directory, std::string_view raw,
                             std::shared_ptr<Directory>* base) {
  std::string path;
  unescape(raw, path);
  if (path.starts_with('/')) {
    // What the links of /proc stand for does not depend on where it is mounted.
    const bool within = !task.root->empty() && !path.starts_with("/proc/");
    return normal_path(within ? below(task.root->get(), path) : std::move(path));
  }
  if (!directory.annotation.empty() && options_.annotations) {
    std::string annotated;
    unescape(directory.annotation, annotated);
    if (annotated.starts_with('/')) {
      return path.empty() ? annotated : normal_path(below(annotated, path));
    }
  }
  if (directory.number == kWorkingDirectory) {
    const Directory& here = *task.directory;
    if (here.known) return path.empty() ? here.path.get() : below(here.path.get(), path);
    if (base) *base = task.directory;
    return normal_path(std::move(path));
  }
  const std::int32_t one = task.table->at(directory.number);
  if (one == kNone) return path;
  const Description& under = descriptions_.at(one);
  if (under.path.empty()) return path;
  if (base) *base = under.base;
  return path.empty() ? under.path : below(under.path, path);
}

void Tracker::opened(Task& task, const Event& event, const Opened& by) {
  ++opens_;
  FdArgument directory{true, event.op == Op::openat ? event.a : kWorkingDirectory, {}, false};
  std::shared_ptr<Directory> base;
  std::string path;
  bool deleted = false;
  // The check hides annotations wherever a descriptor is used. Where it is opened the annotation
  // may count: a path through a link has another name there than in the call.
  const bool annotated = !event.result.annotation.empty();
  const bool named = annotated && (event.result.annotation.starts_with('/') ||
                                   event.result.annotation.starts_with(R"(\x2f)"));  // with -xx
  std::int32_t linked = kNone;
  if (named) {
    deleted = event.result.deleted;
  } else if (event.text.data() != nullptr && !event.text.empty()) {
    path = resolve(task, directory, event.text, &base);
    if (path.starts_with("/proc/") || path.starts_with("/dev/")) linked = through_proc(task, path);
  }
  const std::int32_t index = descriptions_.add();
  Description& made = descriptions_.at(index);
  if (linked != kNone) {
    const Description& same = descriptions_.at(linked);
    if (descriptions_.has_room(same.path.size())) made.path = same.path;
    made.label = same.label;
    made.base = same.base;
    made.kind = same.kind;
    made.deleted = same.deleted;
    made.nameless = same.nameless;
  } else {
    if (named) {  // into the memory that the place has from who had it before
      std::string_view annotation = event.result.annotation;
      annotation = annotation.substr(0, annotation.find('<'));  // </dev/null<char 1:3>>
      if (!event.text.ends_with(kDeletedWord)) deleted |= take_deleted(annotation);
      unescape(annotation, made.path);
    } else {
      made.path = std::move(path);
    }
    made.base = std::move(base);
    made.kind = made.path.empty() ? Kind::unknown : kind_of_path(made.path);
    made.deleted = deleted;
    made.nameless = !annotated && has_flag(event.flags, "O_TMPFILE", kTmpfile);
    made.deleted |= made.nameless;
  }
  if (made.flags.empty() || made.flags != event.flags) made.flags.assign(event.flags);
  made.opened = by;
  if (options_.statistics && libraries_.size() < 100'000) {
    const std::size_t slash = event.text.rfind('/');
    const std::string_view name =
        event.text.substr(slash == std::string_view::npos ? 0 : slash + 1);
    const bool archive =
        name.substr(0, 3) == "lib" && name.size() > 2 && name.substr(name.size() - 2) == ".a";
    if (archive || contains(event.text, ".so")) libraries_.emplace(name);
  }
  if (options_.statistics && !made.path.empty() && files_.size() < kMostFiles && counted(task)) {
    FileCount& count = files_[made.path];
    ++count.opens;
    if (!made.base) made.counted = &count;
  }
  task.table->set(event.result.value, index, event.cloexec, by);
}

// A new descriptor without a path: socket, eventfd, memfd, pidfd, what accept() gives.
void Tracker::created(Task& task, const Event& event, const Opened& by) {
  const std::string_view all = view(event.arguments, event.arguments_end);
  const std::int32_t index = descriptions_.add();
  Description& made = descriptions_.at(index);
  made.opened = by;
  made.kind = Kind::other;
  made.label = event.call == kUnknownCall ? "" : std::string(call_at(event.call).name);
  switch (event.op) {
    case Op::socket:
      made.kind = Kind::socket;
      made.label.clear();
      break;
    case Op::memfd: {
      bool quoted;
      made.kind = Kind::memfd;
      std::string name;
      unescape(quoted_part(argument_at(all, 0), quoted), name);
      made.path = "/memfd:" + name;
      made.deleted = true;
      break;
    }
    case Op::pidfd_open:
      made.target_pid = log_pid(task, static_cast<std::uint32_t>(event.a));
      break;
    case Op::accept: {
      made.kind = Kind::socket;
      made.label.clear();
      accepted(task, event, index, by);
      break;
    }
    default:
      break;
  }
  task.table->set(event.result.value, index, event.cloexec, by);
}

void Tracker::pair(Task& task, const Event& event, const Opened& by) {
  const Call& call = call_at(event.call);
  const bool sockets = call.name == "socketpair";
  const std::string_view list =
      argument_at(view(event.arguments, event.arguments_end), sockets ? 3 : 0);
  if (!list.starts_with('[')) return;  // raw: the numbers are not recorded
  Arguments numbers(list.data() + 1, list.data() + list.size());
  std::string_view first;
  std::string_view second;
  if (!numbers.next(first) || !numbers.next(second)) return;
  const std::int32_t one = descriptions_.add();
  const std::int32_t other = descriptions_.add();
  for (const auto& [index, peer] : {std::pair{one, other}, std::pair{other, one}}) {
    Description& made = descriptions_.at(index);
    made.kind = sockets ? Kind::socket : Kind::pipe;
    made.opened = by;
    made.peer = peer;
    made.writes_only = !sockets && index == other;
  }
  task.table->set(read_fd(first).number, one, event.cloexec, by);
  task.table->set(read_fd(second).number, other, event.cloexec, by);
}

namespace {

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

void Tracker::sent(Task& task, std::string_view arguments) {
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

void Tracker::received(Task& task, std::string_view arguments, const Opened& by) {
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
               descriptions_.at(through).awaited.size() < kMostAwaitedByEpoll) {
      one = descriptions_.add();
      descriptions_.use(one);
      descriptions_.at(through).awaited.push_back(one);
    }
    if (guessed) descriptions_.at(one).guessed = true;
    task.table->set(number, one, cloexec, by);
  }
}

void Tracker::renamed(Task& task, const Event& event) {
  const std::string_view all = view(event.arguments, event.arguments_end);
  const bool at = event.op != Op::rename;
  const FdArgument here{true, kWorkingDirectory, {}, false};
  bool quoted;
  const FdArgument from_directory = at ? read_fd(argument_at(all, 0)) : here;
  const FdArgument to_directory = at ? read_fd(argument_at(all, 2)) : here;
  const std::string_view from_raw = quoted_part(argument_at(all, at ? 1 : 0), quoted);
  const std::string from = resolve(task, from_directory, from_raw);
  const std::string_view to_raw = quoted_part(argument_at(all, at ? 3 : 1), quoted);
  if (!quoted) return;
  const std::string to = resolve(task, to_directory, to_raw);
  if (event.op == Op::linkat) {  // only what had no name gets this one
    std::int32_t one = through_proc(task, from);
    if (from_raw.empty()) one = task.table->at(from_directory.number);
    if (one == kNone || !descriptions_.at(one).nameless) return;
    Description& made = descriptions_.at(one);
    made.path = to;
    made.counted = nullptr;
    made.nameless = made.deleted = false;
    return;
  }
  if (contains(argument_at(all, 4), "RENAME_EXCHANGE")) {
    const std::string between = from + "\x01";
    descriptions_.renamed(from, between);
    descriptions_.renamed(to, from);
    descriptions_.renamed(between, to);
    return;
  }
  descriptions_.renamed(from, to);
}

void Tracker::unlinked(Task& task, std::int64_t directory, std::string_view raw) {
  if (raw.empty()) return;
  descriptions_.removed(resolve(task, {true, directory, {}, false}, raw));
}

void Tracker::transferred(Task& task, const Event& event, const Opened& by) {
  if (event.a == 2 && event.op == Op::write && options_.statistics) said(task, event, by.place);
  const std::int32_t one = task.table->at(event.a);
  if (one == kNone || !counted(task)) return;
  Description& through = descriptions_.at(one);
  const bool out = event.op == Op::write;
  (out ? through.written_bytes : through.read_bytes) +=
      static_cast<std::uint64_t>(event.result.value);
  ++(out ? through.writes : through.reads);
  if (through.kind != Kind::socket) return;
  if (through.connection != kNone) {
    if (event.result.value > 0) works(through.connection);
    Connection& known = connections_[static_cast<std::size_t>(through.connection)];
    known.asked = out;
    if (!out) known.silent_waits = 0;
  }
  asked_name(task, event, through, by.place);
}

namespace {

// Signals that have one number on every architecture (signal(7)), as -X raw writes them.
std::string_view signal_name(std::string_view word) {
  if (word.starts_with("SIG")) return word;
  switch (number_in(word)) {
    case 1:
      return "SIGHUP";
    case 2:
      return "SIGINT";
    case 3:
      return "SIGQUIT";
    case 6:
      return "SIGABRT";
    case 9:
      return "SIGKILL";
    case 11:
      return "SIGSEGV";
    case 15:
      return "SIGTERM";
    default:
      return {};
  }
}

}  // namespace

// kill(pid, signal) and its likes: who sent what is asked when the victim ends.
void Tracker::killed(Task& task, const Event& event) {
  const std::string_view all = view(event.arguments, event.arguments_end);
  const std::string_view name = event.call == kUnknownCall ? "" : call_at(event.call).name;
  const bool to_thread = name == "tgkill";
  const std::string_view signal = signal_name(argument_at(all, to_thread ? 2 : 1));
  std::int64_t victim = read_fd(argument_at(all, to_thread ? 1 : 0)).number;
  if (name == "pidfd_send_signal") {
    const std::int32_t one = task.table->at(victim);
    victim = one == kNone ? 0 : descriptions_.at(one).target_pid;
  } else if (victim > 0) {
    victim = log_pid(task, static_cast<std::uint32_t>(victim));
  } else if (victim == 0 && name == "kill") {
    victim = task.leader;  // its process group, which it is in itself
  }
  if (victim <= 0 || signal.empty()) return;
  const auto known = killers_.find(static_cast<std::uint32_t>(victim));
  if (event.result.failed()) {
    if (known != killers_.end() && known->second.second == task.leader) killers_.erase(known);
    return;
  }
  if (killers_.size() > 100'000) return;
  killers_[static_cast<std::uint32_t>(victim)] = {std::string(signal), task.leader};
}

void Tracker::gone(const Description& description) {
  if (description.path.empty() || !(description.reads | description.writes)) return;
  FileCount* known = description.counted;
  if (!known) {
    const std::string path = description.whole_path();
    const auto found = files_.find(path);
    if (found == files_.end() && files_.size() >= kMostFiles) return;
    known = found == files_.end() ? &files_[path] : &found->second;
  }
  FileCount& count = *known;
  count.read_bytes += description.read_bytes;
  count.written_bytes += description.written_bytes;
  count.reads += description.reads;
  count.writes += description.writes;
}

}  // namespace pm::strace
