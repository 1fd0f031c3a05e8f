#include "strace/file_tables.h"

#include <algorithm>

namespace pm::strace {
namespace {

constexpr std::size_t kMostLibraries = 100'000;
constexpr std::size_t kMostMappings = 100'000;  // of one address space
constexpr std::size_t kMostWritable = 20;
constexpr std::uint64_t kTmpfile = 020200000;  // O_TMPFILE: __O_TMPFILE | O_DIRECTORY

Kind kind_of_path(std::string_view path) noexcept {
  if (path.starts_with("/dev/") && !path.starts_with("/dev/shm/") &&
      !path.starts_with("/dev/mqueue/") && !path.starts_with("/dev/hugepages/")) {
    return Kind::device;
  }
  return Kind::file;
}

bool is_written(const Description& one) noexcept {
  return one.kind == Kind::file &&
         (contains(one.flags, "O_WRONLY") || contains(one.flags, "O_RDWR"));
}

}  // namespace

FileTables::FileTables(const TrackerOptions& options, Descriptions& descriptions,
                       const Processes& processes)
    : options_(options), descriptions_(descriptions), processes_(processes) {
  descriptions.context = this;
  if (options.statistics) {
    descriptions.on_close = [](void* context, const Description& one) {
      static_cast<FileTables*>(context)->on_close(one);
    };
  }
}

void FileTables::opened(Task& task, const Event& event, const Opened& by) {
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
    made.nameless = !annotated && has_flag(event.flags, "TMPFILE", kTmpfile);
    made.deleted |= made.nameless;
  }
  if (made.flags.empty() || made.flags != event.flags) made.flags.assign(event.flags);
  made.opened = by;
  if (options_.statistics) note_library(event.text);
  if (options_.statistics && !made.path.empty() && counts_.size() < kMostFiles &&
      processes_.counted(task)) {
    FileCount& count = counts_[made.path];
    ++count.opens;
    if (!made.base) made.counted = &count;
  }
  task.table->set(event.result.value, index, event.cloexec, by);
}

void FileTables::note_library(std::string_view path) {
  if (libraries_.size() >= kMostLibraries) return;
  const std::string_view name = path.substr(path.rfind('/') + 1);  // all of it without one
  const bool archive = name.starts_with("lib") && name.ends_with(".a");
  if (archive || contains(path, ".so")) libraries_.emplace(name);
}

std::int32_t FileTables::created(const Task& task, const Event& event, const Opened& by) {
  const std::string_view all = view(event.arguments, event.arguments_end);
  const std::int32_t index = descriptions_.add();
  Description& made = descriptions_.at(index);
  made.opened = by;
  made.kind = Kind::other;
  made.label = event.call == kUnknownCall ? "" : std::string(call_at(event.call).name);
  switch (event.op) {
    case Op::accept:
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
      made.target_pid = processes_.log_pid(task, static_cast<std::uint32_t>(event.a));
      break;
    default:
      break;
  }
  return index;
}

void FileTables::duplicated(Task& task, const Event& event, const Opened& by) {
  const std::int32_t one = task.table->at(event.a);
  descriptions_.use(one);
  task.table->set(event.result.value, one, event.cloexec, by);
}

void FileTables::taken_from_other(Task& task, const Event& event, const Opened& by) {
  const std::string_view all = view(event.arguments, event.arguments_end);
  const std::int32_t handle = task.table->at(read_fd(argument_at(all, 0)).number);
  std::int32_t one = kNone;
  if (handle != kNone) {
    const Task* const from = processes_.find(descriptions_.at(handle).target_pid);
    if (from) one = from->table->at(read_fd(argument_at(all, 1)).number);
  }
  descriptions_.use(one);
  task.table->set(event.result.value, one, true, by);
}

void FileTables::closed_range(Task& task, const Event& event) {
  const std::int64_t last = event.b < 0 ? Table::kMostNumbers : event.b;
  if (event.flags.find("UNSHARE") != std::string_view::npos && task.table.use_count() > 1) {
    task.table = std::make_shared<Table>(*task.table);
  }
  if (!event.cloexec) {
    task.table->clear_range(event.a, last);
  } else {
    task.table->set_cloexec(event.a, last);
  }
}

void FileTables::pair(Task& task, const Event& event, const Opened& by) {
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

void FileTables::on_close(const Description& description) {
  if (description.path.empty() || !(description.reads | description.writes)) return;
  FileCount* known = description.counted;
  if (!known) {
    const std::string path = description.whole_path();
    const auto found = counts_.find(path);
    if (found == counts_.end() && counts_.size() >= kMostFiles) return;
    known = found == counts_.end() ? &counts_[path] : &found->second;
  }
  FileCount& count = *known;
  count.read_bytes += description.read_bytes;
  count.written_bytes += description.written_bytes;
  count.reads += description.reads;
  count.writes += description.writes;
}

void FileTables::add_errors(const std::vector<Failure>& failures) {
  for (const Failure& failure : failures) {
    if (failure.path.empty() || failure.kind != Kind::file) continue;
    const auto file = counts_.find(failure.path);
    if (file != counts_.end()) {
      file->second.errors += failure.count;
    } else if (counts_.size() < kMostFiles && failure.error != "ENOENT") {
      counts_[failure.path].errors += failure.count;
    }
  }
}

std::vector<std::string> FileTables::written_by(const Task& task) const {
  constexpr std::size_t kMostWritten = 8;
  constexpr std::int64_t kMostSearched = 4096;
  std::vector<std::string> written;
  task.table->each([&](std::int64_t number, const Slot& slot) {
    const Description& one = descriptions_.at(slot.description);
    if (is_written(one)) {
      std::string path = one.whole_path();
      if (std::find(written.begin(), written.end(), path) == written.end()) {
        written.push_back(std::move(path));
      }
    }
    return number < kMostSearched && written.size() < kMostWritten;
  });
  return written;
}

void FileTables::finish() {
  if (io_uring_) {
    for (const Description& one : descriptions_.all()) {
      if (one.live && is_written(one) && writable_.size() < kMostWritable) {
        writable_.push_back(one.whole_path());
      }
    }
  }
  if (!options_.statistics) return;
  for (const Description& one : descriptions_.all()) {
    if (one.live) on_close(one);
  }
}

void FileTables::mapped(Task& task, const Event& event) {
  const std::string_view all = view(event.arguments, event.arguments_end);
  const auto number_at = [&](unsigned index) {
    return static_cast<std::uint64_t>(number_in(argument_at(all, index)));
  };
  const auto start = static_cast<std::uint64_t>(event.result.value);
  if (event.op == Op::mremap) {
    const std::uint64_t from = number_at(0);
    const auto found = task.memory->mappings().find(from);
    if (found == task.memory->mappings().end()) return;
    const std::int32_t one = found->second.description;
    descriptions_.use(one);
    task.memory->unmap(from, number_at(1));
    task.memory->unmap(start, number_at(2));
    task.memory->map(start, number_at(2), one);
    return;
  }
  const std::int32_t one = event.a < 0 ? kNone : task.table->at(event.a);
  if (one == kNone && task.memory->mappings().empty()) return;
  const std::uint64_t length = event.b >= 0 ? static_cast<std::uint64_t>(event.b) : number_at(1);
  task.memory->unmap(start, length);
  if (one == kNone || task.memory->mappings().size() > kMostMappings) return;
  descriptions_.use(one);
  task.memory->map(start, length, one);
}

void FileTables::unmapped(Task& task, const Event& event) {
  if (task.memory->mappings().empty()) return;
  if (event.shape == Shape::call && event.b >= 0) {
    task.memory->unmap(static_cast<std::uint64_t>(event.a), static_cast<std::uint64_t>(event.b));
    return;
  }
  const std::string_view all = view(event.arguments, event.arguments_end);
  const std::string_view start = argument_at(all, 0);
  const std::string_view length = argument_at(all, 1);
  if (start.empty() || length.empty()) return;
  task.memory->unmap(static_cast<std::uint64_t>(number_in(start)),
                     static_cast<std::uint64_t>(number_in(length)));
}

}  // namespace pm::strace
