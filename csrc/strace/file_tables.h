// What the numbers of each task stand for: open files, their names, and what is mapped.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "strace/aio.h"
#include "strace/processes.h"
#include "strace/tracker_options.h"

namespace pm::strace {

class FileTables {
 public:
  FileTables(const TrackerOptions& options, Descriptions& descriptions, const Processes& processes);

  // Keeps out of the check what annotations say while it lives.
  class QuietCheck {
   public:
    explicit QuietCheck(FileTables& files)
        : check_(files.check_), wrong_(check_.wrong), examples_(check_.examples.size()) {}
    QuietCheck(const QuietCheck&) = delete;
    QuietCheck& operator=(const QuietCheck&) = delete;
    ~QuietCheck() {
      check_.wrong = wrong_;
      check_.examples.resize(examples_);
    }

   private:
    Check& check_;
    std::uint64_t wrong_;
    std::size_t examples_;
  };

  void opened(Task& task, const Event& event, const Opened& by);
  // A new descriptor without a path: socket, eventfd, memfd, pidfd, what accept() gives. Whoever
  // calls gives it a number.
  std::int32_t created(const Task& task, const Event& event, const Opened& by);
  void duplicated(Task& task, const Event& event, const Opened& by);
  void taken_from_other(Task& task, const Event& event, const Opened& by);  // pidfd_getfd()
  void pair(Task& task, const Event& event, const Opened& by);
  void closed_range(Task& task, const Event& event);
  void renamed(const Task& task, const Event& event);
  void unlinked(const Task& task, std::int64_t directory, std::string_view raw);
  void mapped(Task& task, const Event& event);
  void unmapped(Task& task, const Event& event);
  void ring_made(Task& task, const Event& event, const Opened& by);
  void ring_entered(const Task& task, std::int64_t fd, std::int64_t all_of, const Result& result);

  void changed_root(Task& task, const Event& event);
  void changed_directory(Task& task, const Event& event);
  void learned_directory(Task& task, const Event& event);  // getcwd()

  // The path that `raw` names for a task. Where it begins in a directory not known (yet), `base` is
  // that directory and the path is relative.
  std::string resolve(const Task& task, const FdArgument& directory, std::string_view raw,
                      std::shared_ptr<Directory>* base = nullptr);
  // What a call is about; `fd` is set where that is a descriptor.
  Target target_of(const Task& task, const Call& call, std::string_view arguments,
                   const Event& event, std::int64_t& fd);
  Target target_of_fd(const Task& task, const FdArgument& fd);
  // The same of what is mapped at an address.
  Target target_at(const Task& task, std::uint64_t address) const;
  // The open file that a failed call is about, where that takes no more than its first argument:
  // `ioctl(3, TCGETS, 0x7ffd…) = -1 ENOTTY`. Null where target_of() must look.
  const Description* plain_file(const Task& task, const Event& event) const;
  // What a task has open and how often, the most first.
  std::vector<std::pair<std::string, std::uint64_t>> held_by(const Task& task) const;
  // What a process may have left half written: the only trace of it where no write is recorded.
  std::vector<std::string> written_by(const Task& task) const;
  // Compares what is known of a descriptor with what strace wrote behind it.
  void check(const Task& task, const Event& event);

  AioRequests& requests() noexcept { return requests_; }
  // What failed on each file; one that is not there is none.
  void add_errors(const std::vector<Failure>& failures);
  void finish();

  const std::unordered_map<std::string, FileCount>& counts() const noexcept { return counts_; }
  const Check& checked() const noexcept { return check_; }
  // Whether anything can have been asked for through a ring: one that was only set up hides
  // nothing.
  bool used_io_uring() const noexcept { return io_uring_; }
  const std::vector<std::string>& open_for_writing() const noexcept { return writable_; }
  std::uint64_t opens_seen() const noexcept { return opens_; }
  // Names without folders of shared libraries that were opened, as the program asked for them, and
  // of archives (libx.a), which a linker takes where there is no shared one.
  const std::unordered_set<std::string>& libraries() const noexcept { return libraries_; }

 private:
  void on_close(const Description& description);
  void note_library(std::string_view path);
  std::string below(const std::string& folder, const std::string& path);
  std::int32_t through_proc(const Task& task, const std::string& path) const;
  Target completed(const Task& task, const Event& event, std::string_view arguments,
                   std::int64_t& fd);

  const TrackerOptions& options_;
  Descriptions& descriptions_;
  const Processes& processes_;
  AioRequests requests_;
  std::unordered_map<std::string, FileCount> counts_;
  Check check_;
  std::vector<std::string> writable_;
  std::unordered_set<std::string> libraries_;
  std::uint64_t opens_ = 0;
  bool io_uring_ = false;
};

}  // namespace pm::strace
