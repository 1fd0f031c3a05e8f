// Names: what a path is for a task, and what changes it.
#include "strace/file_tables.h"

namespace pm::strace {

// The description that a path like /proc/self/fd/3 stands for, or kNone.
std::int32_t FileTables::through_proc(const Task& task, const std::string& path) const {
  std::string_view rest = path;
  const Task* owner = &task;
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
      owner = processes_.find(static_cast<std::uint32_t>(pid));
      if (!owner) return kNone;
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
std::string FileTables::below(const std::string& folder, const std::string& path) {
  if (!descriptions_.has_room(folder.size())) {
    const std::size_t slash = path.rfind('/');
    return "\u2026/" + path.substr(slash == std::string::npos ? 0 : slash + 1);
  }
  return bounded_path(normal_path(folder + "/" + path));
}

std::string FileTables::resolve(const Task& task, const FdArgument& directory, std::string_view raw,
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

void FileTables::changed_root(Task& task, const Event& event) {
  std::string path = resolve(task, {true, kWorkingDirectory, {}, false}, event.text);
  if (path.starts_with('/')) *task.root = path == "/" ? std::string() : std::move(path);
}

void FileTables::changed_directory(Task& task, const Event& event) {
  if (event.op == Op::chdir) {
    std::shared_ptr<Directory> base;
    std::string path = resolve(task, {true, kWorkingDirectory, {}, false}, event.text, &base);
    *task.directory = {std::move(path), !base, base ? std::make_shared<Directory>(*base) : nullptr};
    return;
  }
  const std::int32_t one = task.table->at(event.a);
  if (one == kNone || descriptions_.at(one).path.empty()) {
    *task.directory = {};
  } else {
    const Description& to = descriptions_.at(one);
    *task.directory = {SharedText(to.path), !to.base, to.base};
  }
}

void FileTables::learned_directory(Task& task, const Event& event) {
  bool quoted;
  const std::string_view raw =
      quoted_part(argument_at(view(event.arguments, event.arguments_end), 0), quoted);
  if (!quoted || !raw.starts_with('/')) return;
  std::string path;
  unescape(raw, path);
  if (!task.root->empty()) path = below(task.root->get(), path);
  // In place: whoever was opened relative to it, before it was known, learns it too.
  Directory* where = task.directory.get();
  while (!where->known && where->path.empty() && where->below) where = where->below.get();
  where->path = SharedText(std::move(path));
  where->known = true;
  if (where != task.directory.get()) *task.directory = {where->path, true, nullptr};
}

void FileTables::renamed(const Task& task, const Event& event) {
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

void FileTables::unlinked(const Task& task, std::int64_t directory, std::string_view raw) {
  if (raw.empty()) return;
  descriptions_.removed(resolve(task, {true, directory, {}, false}, raw));
}

}  // namespace pm::strace
