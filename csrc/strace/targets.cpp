// What a call was about: the file, socket or path to blame.
#include <algorithm>
#include <map>

#include "strace/file_tables.h"
#include "strace/sockets.h"

namespace pm::strace {
namespace {

constexpr std::size_t kMostHeld = 8;

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

// Whether a file is known by a name that itself ends like the kernel's mark.
bool is_named_deleted(std::string_view known, std::string_view annotated) noexcept {
  return known.size() == annotated.size() + kDeletedWord.size() && known.starts_with(annotated) &&
         known.ends_with(kDeletedWord);
}

Target described(const Description& one) {
  Target target;
  target.path = one.whole_path();
  target.kind = one.kind;
  target.deleted = one.deleted;
  target.nameless = one.nameless;
  target.origin = Origin::tracked;
  target.opened = one.opened;
  target.flags = one.flags;
  target.label = one.label;
  return target;
}

}  // namespace

std::string_view word_of(Kind kind) noexcept {
  static constexpr std::string_view kWords[] = {"unknown", "file",   "socket", "pipe",
                                                "memfd",   "device", "other"};
  return kWords[static_cast<std::size_t>(kind)];
}

std::string_view word_of(Origin origin) noexcept {
  static constexpr std::string_view kWords[] = {"unknown", "tracked", "annotated", "argument"};
  return kWords[static_cast<std::size_t>(origin)];
}

Target FileTables::target_at(const Task& task, std::uint64_t address) const {
  const Mappings& mappings = task.memory->mappings();
  auto above = mappings.upper_bound(address);
  if (above == mappings.begin()) return {};
  --above;
  const auto& [end, description] = above->second;
  if (address >= end || description == kNone) return {};
  return described(descriptions_.at(description));
}

Target FileTables::target_of_fd(const Task& task, const FdArgument& fd) {
  Target target;
  if (fd.number == kWorkingDirectory) return target;
  const Slot* const slot = task.table->find(fd.number);
  if (slot && slot->description != kNone) {
    const Description& one = descriptions_.at(slot->description);
    target = described(one);
    target.guessed = one.guessed;
    if (one.path.empty() && one.label.empty() && one.kind == Kind::unknown) {
      target.origin = Origin::unknown;
    }
    target.given = slot->by;
    target.written_bytes = one.written_bytes;
    target.read_bytes = one.read_bytes;
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

Target FileTables::target_of(const Task& task, const Call& call, std::string_view arguments,
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
  if (call.op == Op::aio_events) return completed(task, event, arguments, fd);
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

// What a request that failed was for.
Target FileTables::completed(const Task& task, const Event& event, std::string_view arguments,
                             std::int64_t& fd) {
  bool guessed = false;
  const AioRequest* const meant = requests_.failed(task.leader, event, arguments, guessed);
  if (!meant) return {};
  fd = meant->fd;
  Target target = target_of_fd(task, {true, meant->fd, meant->annotation, meant->deleted});
  target.guessed |= guessed;
  return target;
}

std::vector<std::pair<std::string, std::uint64_t>> FileTables::held_by(const Task& task) const {
  std::map<std::string, std::uint64_t> counts;
  task.table->each([&](std::int64_t, const Slot& slot) {
    const Description& one = descriptions_.at(slot.description);
    const std::string path = one.whole_path();
    const std::string_view kind = one.kind == Kind::socket ? "sockets"
                                  : one.kind == Kind::pipe ? "pipes"
                                                           : std::string_view(one.label);
    ++counts[path.empty() ? std::string(kind) : path];
    return true;
  });
  counts.erase("");
  std::vector<std::pair<std::string, std::uint64_t>> most(counts.begin(), counts.end());
  std::stable_sort(most.begin(), most.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  if (most.size() > kMostHeld) most.resize(kMostHeld);
  return most;
}

const Description* FileTables::plain_file(const Task& task, const Event& event) const {
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

void FileTables::check(const Task& task, const Event& event) {
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
