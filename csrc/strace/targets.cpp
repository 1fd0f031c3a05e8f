// What a call was about: its hits, failures and waits with the file, socket or path to blame.
#include <arpa/inet.h>
#include <fnmatch.h>

#include <algorithm>

#include "strace/task.h"
#include "strace/tracker.h"

namespace pm::strace {
namespace {

constexpr std::size_t kMostFailures = 20'000;
constexpr std::size_t kMostTallies = 4;
constexpr std::size_t kMostHoldersOfTarget = 8;

std::string_view between(std::string_view text, std::string_view before, char after) {
  const std::size_t at = text.find(before);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = text.substr(at + before.size());
  const std::size_t end = rest.find(after);
  return end == std::string_view::npos ? std::string_view{} : rest.substr(0, end);
}

// The kind of what an annotation of -y or -yy names.
Kind annotated_kind(std::string_view annotation) {
  if (annotation.starts_with("/memfd:")) return Kind::memfd;
  if (annotation.find("<char ") != std::string_view::npos ||
      annotation.find("<block ") != std::string_view::npos) {
    return Kind::device;
  }
  if (annotation.starts_with('/'))
    return annotation.starts_with("/dev/") && !annotation.starts_with("/dev/shm/") ? Kind::device
                                                                                   : Kind::file;
  if (annotation.starts_with("pipe:")) return Kind::pipe;
  if (annotation.starts_with("socket:") || annotation.find(":[") != std::string_view::npos) {
    return annotation.starts_with("anon_inode") ? Kind::other : Kind::socket;
  }
  return Kind::other;
}

std::string annotated_path(std::string_view annotation) {
  std::string path;
  const std::size_t nested =
      annotation.starts_with('/') ? annotation.find('<') : std::string_view::npos;
  unescape(annotation.substr(0, nested), path);
  return path;
}

std::string_view name_of(const Event& event) {
  return event.call != kUnknownCall ? call_at(event.call).name
                                    : read_line(event.line, event.end).name;
}

}  // namespace

namespace {

// The bytes behind a field, as -X raw writes ports and addresses: sin_port="\x00\x09".
std::string bytes_of(std::string_view raw, std::string_view field) {
  std::string bytes;
  unescape(between(raw, field, '"'), bytes);
  return bytes;
}

std::string raw_address(std::string_view raw) {
  const bool six = raw.find("sin6_port=\"") != std::string_view::npos;
  const std::string port = bytes_of(raw, six ? "sin6_port=\"" : "sin_port=\"");
  const std::string address = bytes_of(raw, six ? "sin6_addr=\"" : "sin_addr=\"");
  char words[INET6_ADDRSTRLEN];
  if (port.size() != 2 || address.size() != (six ? 16 : 4) ||
      !inet_ntop(six ? AF_INET6 : AF_INET, address.data(), words, sizeof words)) {
    return {};
  }
  const unsigned number =
      static_cast<unsigned char>(port[0]) * 256U + static_cast<unsigned char>(port[1]);
  return (six ? "[" + std::string(words) + "]" : words) + ":" + std::to_string(number);
}

}  // namespace

// {sa_family=AF_INET, sin_port=htons(9), sin_addr=inet_addr("127.0.0.1")} as 127.0.0.1:9
std::string address_words(std::string_view raw) {
  const std::string_view port = between(raw, "htons(", ')');
  std::string host;  // in hexadecimal with -xx
  unescape(between(raw, "inet_addr(\"", '"'), host);
  if (!host.empty()) return host + ":" + std::string(port);
  unescape(between(raw, "inet_pton(AF_INET6, \"", '"'), host);
  if (!host.empty()) return "[" + host + "]:" + std::string(port);
  if (raw.find("_port=\"") != std::string_view::npos) return raw_address(raw);
  if (raw.find("AF_UNIX") != std::string_view::npos) {
    const std::size_t at = raw.find("sun_path=");
    if (at == std::string_view::npos) return "unix";
    bool quoted;
    std::string path;
    unescape(quoted_part(raw.substr(at), quoted), path);
    if (raw.substr(at + 9).starts_with('@')) path.insert(path.begin(), '@');
    return path;
  }
  return {};
}

namespace {

// Whether a file is known by a name that itself ends like the kernel's mark.
bool is_named_deleted(std::string_view known, std::string_view annotated) noexcept {
  return known.size() == annotated.size() + kDeletedWord.size() && known.starts_with(annotated) &&
         known.ends_with(kDeletedWord);
}

}  // namespace

Target Tracker::target_of_fd(Task& task, const FdArgument& fd) {
  Target target;
  if (fd.number == kWorkingDirectory) return target;
  const Slot* const slot = task.table->find(fd.number);
  if (slot && slot->description != kNone) {
    const Description& one = descriptions_.at(slot->description);
    target.path = one.whole_path();
    target.kind = one.kind;
    target.deleted = one.deleted;
    target.nameless = one.nameless;
    target.guessed = one.guessed;
    target.origin = one.path.empty() && one.label.empty() && one.kind == Kind::unknown
                        ? Origin::unknown
                        : Origin::tracked;
    target.opened = one.opened;
    target.flags = one.flags;
    target.given = slot->by;
    target.written_bytes = one.written_bytes;
    target.read_bytes = one.read_bytes;
    target.label = one.label;
    if (one.kind == Kind::socket && target.path.empty()) {
      target.path = address_words(one.label);
    }
  }
  if (!fd.annotation.empty() && options_.annotations) {
    std::string path = annotated_path(fd.annotation);
    bool deleted = fd.deleted;
    if (deleted && is_named_deleted(target.path, path)) {
      path = target.path;
      deleted = target.deleted;
    }
    if (!target.path.empty() && target.path != path && target.kind == Kind::file) {
      ++check_.wrong;
      if (check_.examples.size() < 5) {
        check_.examples.push_back("descriptor " + std::to_string(fd.number) + " is " + path +
                                  ", and not " + target.path);
      }
      target.opened.reset();
      target.given.reset();
    }
    target.path = path;
    const bool hex = fd.annotation.starts_with(R"(\x2f)");  // with -xx
    target.kind = annotated_kind(hex ? std::string_view(path) : fd.annotation);
    target.deleted = deleted;
    target.nameless = false;
    target.origin = Origin::annotated;
  }
  return target;
}

Target Tracker::target_of(Task& task, const Call& call, std::string_view arguments,
                          const Event& event, std::int64_t& fd) {
  Target target;
  const auto argument = [&](unsigned index) { return argument_at(arguments, index); };
  const auto path_target = [&](const FdArgument& directory, std::string_view word) {
    bool quoted;
    const std::string_view raw = quoted_part(word, quoted);
    if (!quoted) return;
    if (raw.empty() && directory.number >= 0) {  // AT_EMPTY_PATH: the descriptor itself
      fd = directory.number;
      target = target_of_fd(task, directory);
      return;
    }
    std::shared_ptr<Directory> base;
    target.path = resolve(task, directory, raw, &base);
    if (base) {
      Description described;
      described.path = std::move(target.path);
      described.base = std::move(base);
      target.path = described.whole_path();
    }
    target.origin = Origin::argument;
    target.kind = Kind::file;
    const std::int32_t linked = through_proc(task, target.path);
    if (linked != kNone) target.path = descriptions_.at(linked).whole_path();
  };
  const FdArgument here{true, kWorkingDirectory, {}, false};
  // Of two paths the second is what could not be made; the first is what was not there.
  const bool about_source = event.result.error == "ENOENT" || event.result.error == "EACCES";
  if (call.op == Op::aio_events) return completed(task, arguments, fd);
  switch (call.role) {
    case Role::fd: {
      const FdArgument read = read_fd(argument(call.first));
      if (!read.valid || read.number < 0) break;
      fd = read.number;
      target = target_of_fd(task, read);
      break;
    }
    case Role::path:
      path_target(here, argument(call.first));
      break;
    case Role::at:
      path_target(read_fd(argument(call.first)), argument(call.second));
      break;
    case Role::paths:
      path_target(here, argument(about_source ? call.first : call.second));
      break;
    case Role::ats: {
      const unsigned index = about_source ? call.first : call.second;
      path_target(read_fd(argument(index)), argument(index + 1U));
      break;
    }
    case Role::peer: {
      const FdArgument read = read_fd(argument(call.first));
      if (!read.valid) break;
      fd = read.number;
      target = target_of_fd(task, read);
      const std::string peer = address_words(argument(call.second));
      if (!peer.empty()) {
        target.path = peer;
        target.kind = Kind::socket;
        target.origin = Origin::argument;
      }
      break;
    }
    case Role::none:
      break;
  }
  return target;
}

// The arguments of a call that may have ended on another line than it began.
std::string Tracker::full_arguments(Task& task, const Event& event) {
  std::string room;
  const std::string_view whole = full_arguments(task, event, room);
  return whole.data() == room.data() ? room : std::string(whole);
}

std::string_view Tracker::full_arguments(Task& task, const Event& event, std::string& room) {
  const std::string_view rest = view(event.arguments, event.arguments_end);
  if (event.shape != Shape::resumed) return rest;
  std::string_view entry;
  if (event.half == Half::here) {
    entry = view(event.entry, event.entry_end);
  } else if (event.half == Half::elsewhere && task.begun) {
    entry = task.begun_line;
  } else {
    return rest;
  }
  std::string padded(entry);
  padded.append(kPadding, '\0');
  const Line read = read_line(padded.data(), padded.data() + entry.size());
  if (!read.arguments) return rest;
  room.assign(view(read.arguments, read.end));
  room += rest;
  return room;
}

std::vector<std::pair<std::string, std::uint64_t>> Tracker::holders(const Task& task) const {
  std::map<std::string, std::uint64_t> counts;
  for (const Slot& slot : task.table->slots) {
    if (slot.description == kNone) continue;
    const Description& one = descriptions_.at(slot.description);
    const std::string path = one.whole_path();
    const std::string_view kind = one.kind == Kind::socket ? "sockets"
                                  : one.kind == Kind::pipe ? "pipes"
                                                           : std::string_view(one.label);
    ++counts[path.empty() ? std::string(kind) : path];
  }
  counts.erase("");
  std::vector<std::pair<std::string, std::uint64_t>> most(counts.begin(), counts.end());
  std::stable_sort(most.begin(), most.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  if (most.size() > kMostHoldersOfTarget) most.resize(kMostHoldersOfTarget);
  return most;
}

// A call with all that a reader of the report will ask of it.
Match Tracker::match_of(Task& task, const Event& event, const Context& context) {
  Match match;
  match.place = {context.file, context.first_line + event.number};
  if (event.shape == Shape::resumed) {
    if (event.half == Half::here) {
      match.entry_line = context.first_line + event.entry_number;
    } else if (event.half == Half::elsewhere && task.begun) {
      match.entry_line = task.begun_place.line;
    }
  }
  const Process& process = processes_[task.process];
  match.pid = task.pid;
  match.argv = process.argv;
  match.rank = process.rank;
  match.parent = process.parent;
  match.thread_of = process.thread_of;
  match.time = time_of(event.line, event.end);
  match.nanoseconds = event.nanoseconds;
  const std::string arguments = full_arguments(task, event);
  match.syscall = std::string(name_of(event));
  match.text = match.syscall + "(" + arguments;
  if (match.text.size() > kLongestText) {
    match.text = match.text.substr(0, kLongestText / 2) + " … " +
                 match.text.substr(match.text.size() - kLongestText / 2);
  }
  match.error = std::string(event.result.error);
  match.injected = event.result.injected;
  if (event.call != kUnknownCall) {
    match.target = target_of(task, call_at(event.call), arguments, event, match.fd);
  }
  return match;
}

// Whether a query holds, now that the target is known too.
bool Tracker::asked(const Match& match, const Event& event) const {
  return std::any_of(options_.queries.begin(), options_.queries.end(), [&](const Query& query) {
    return query.may_hold(event) && (query.pid < 0 || query.pid == match.pid) &&
           (query.fd < 0 || query.fd == match.fd) &&
           (query.slower == 0 || event.nanoseconds >= query.slower) &&
           (query.path.empty() ||
            (!match.target.path.empty() &&
             fnmatch(query.path.c_str(), match.target.path.c_str(), FNM_NOESCAPE) == 0));
  });
}

void Tracker::hit(Task& task, const Event& event, const Context& context) {
  if (!counted(task)) return;
  const bool all =
      std::all_of(options_.queries.begin(), options_.queries.end(),
                  [](const Query& q) { return q.pid < 0 && q.fd < 0 && q.path.empty(); });
  std::string kind(event.result.error);  // failures of one call, or calls asked for by their name
  if (event.call != kUnknownCall) kind += call_at(event.call).name;
  std::size_t& kept = kept_[kind];
  if (all && (matches_.size() >= options_.most_matches || kept >= options_.most_of_one)) {
    ++match_count_;
    return;
  }
  Match match = match_of(task, event, context);
  if (!asked(match, event)) return;
  ++match_count_;
  ++kept;
  if (event.result.error == "EMFILE" && kept <= kMostTallies) match.holders = holders(task);
  if (matches_.size() < options_.most_matches) matches_.push_back(std::move(match));
}

void Tracker::failed(Task& task, const Event& event, const Context& context) {
  if (!counted(task)) return;
  const std::string_view name = name_of(event);
  Target target;
  const Description* const plain = plain_file(task, event);
  if (!plain && event.call != kUnknownCall) {
    std::int64_t fd = -1;
    std::string room;
    const std::string_view arguments = full_arguments(task, event, room);
    target = target_of(task, call_at(event.call), arguments, event, fd);
  }
  const std::string& path = plain ? plain->path : target.path;
  const std::string_view error = event.result.error;
  const std::uint64_t hash = hash_text(hash_text(hash_text(seed_, error), name), path);
  const std::uint32_t found = failure_index_.find(hash, [&](std::uint32_t place) {
    const Failure& failure = failures_[place];
    return failure.path == path && failure.syscall == name && failure.error == error;
  });
  if (found != HashIndex::kNowhere) {
    Failure& failure = failures_[found];
    ++failure.count;
    failure.injected += event.result.injected;
  } else if (failures_.size() < kMostFailures) {
    failure_index_.add(hash, static_cast<std::uint32_t>(failures_.size()));
    Failure failure;
    failure.error = std::string(error);
    failure.syscall = std::string(name);
    failure.path = path;
    failure.kind = plain ? plain->kind : target.kind;
    failure.count = 1;
    failure.injected = event.result.injected;
    failure.first = {context.file, context.first_line + event.number};
    failure.pid = task.pid;
    failures_.push_back(std::move(failure));
  }
  last_failed(task, name, event, path, context);
}

// The open file that a failed call is about, where that takes no more than its first argument:
// `ioctl(3, TCGETS, 0x7ffd…) = -1 ENOTTY`. Null where target_of() must look.
const Description* Tracker::plain_file(Task& task, const Event& event) const {
  if (event.call == kUnknownCall || event.shape == Shape::resumed) return nullptr;
  const Call& call = call_at(event.call);
  if (call.role != Role::fd || call.first != 0) return nullptr;
  const char* at = event.arguments;
  std::uint32_t number = 0;
  if (!read_short(at, number) || (*at != ',' && *at != ')')) return nullptr;
  const std::int32_t one = task.table->at(number);
  if (one == kNone) return nullptr;
  const Description& file = descriptions_.at(one);
  return file.kind == Kind::file && !file.base ? &file : nullptr;
}

// Adds to each file what failed on it; one that is not there is none.
void Tracker::failed_on_files() {
  for (const Failure& failure : failures_) {
    if (failure.path.empty() || failure.kind != Kind::file) continue;
    const auto file = files_.find(failure.path);
    if (file != files_.end()) {
      file->second.errors += failure.count;
    } else if (files_.size() < kMostFiles && failure.error != "ENOENT") {
      files_[failure.path].errors += failure.count;
    }
  }
}

// Compares what the tracker thinks of a descriptor with what strace wrote behind it.
void Tracker::checked(Task& task, const Event& event) {
  const std::string annotated = annotated_path(event.text);
  if (!annotated.starts_with('/')) return;  // only paths have a truth to compare
  ++check_.uses;
  FdArgument fd{true, event.a, {}, false};
  const Slot* const slot = task.table->find(fd.number);
  if (!slot || slot->description == kNone || descriptions_.at(slot->description).path.empty()) {
    ++check_.unknown;
    if (event.a > 2 && check_.examples.size() < 20) {
      check_.examples.push_back(std::to_string(event.a) + " of " + std::to_string(task.pid) +
                                " is not known to be " + annotated);
    }
    return;
  }
  const Description& one = descriptions_.at(slot->description);
  const std::string path = one.whole_path();
  const bool same = path == annotated || is_named_deleted(path, annotated) ||
                    (one.nameless && annotated.starts_with(path + "/")) ||
                    (one.kind == Kind::memfd && annotated.starts_with("/memfd:"));
  if (same) {
    ++check_.right;
    return;
  }
  if (one.base) {  // relative to a directory that the log does not name
    const bool tail = annotated.ends_with("/" + path);
    ++(tail ? check_.right : check_.wrong);
    if (tail) return;
  } else {
    ++check_.wrong;
  }
  if (check_.examples.size() < 20) {
    check_.examples.push_back("line " + std::to_string(event.number + 1) + " of its block: " +
                              std::to_string(event.a) + " is " + annotated + ", and not " + path);
  }
}

}  // namespace pm::strace
