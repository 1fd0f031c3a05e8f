// Second phase: replays the events of a log in order and keeps what each task has open.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "strace/aio.h"
#include "strace/descriptors.h"
#include "strace/extract.h"
#include "strace/hash_index.h"
#include "strace/observer.h"
#include "strace/shared.h"
#include "strace/summary.h"
#include "strace/table.h"

namespace pm::strace {

// What a call was about, and how sure that is.
enum class Origin : std::uint8_t { unknown, tracked, annotated, argument };

struct Target {
  std::string path;
  Kind kind = Kind::unknown;
  Origin origin = Origin::unknown;
  bool deleted = false;
  bool nameless = false;  // a file of O_TMPFILE: `path` is the directory it is in
  bool guessed = false;
  std::optional<Opened> opened;
  std::string flags;
  std::optional<Opened> given;  // the dup, fork-inherited open, or message that gave this number
  std::uint64_t written_bytes = 0;
  std::uint64_t read_bytes = 0;
  std::string label;
};

struct Match {
  Place place;
  std::uint64_t entry_line = 0;  // where the call began, 0 if on the same line
  std::uint32_t pid = 0;
  double time = -1;
  std::string syscall;  // or the signal
  std::string text;     // the call in full
  std::string error;
  std::int64_t fd = -1;
  Target target;
  bool injected = false;
  bool inferred = false;          // SIGBUS: no errno was returned, but a mapped page had no room
  std::uint64_t nanoseconds = 0;  // that the call took; 0 if not known
  SharedWords rank;               // of the process: RANK=3
  std::uint32_t parent = 0;
  std::uint32_t thread_of = 0;
  SharedWords argv;  // of the process at that time: it may call exec later
  // What was open, and how often, when no more descriptors could be had: the most first.
  std::vector<std::pair<std::string, std::uint64_t>> holders;
};

// A task that has the other end of what somebody waits for.
struct Holder {
  std::uint32_t pid = 0;
  std::int64_t fd = -1;
};

// One descriptor that a blocked call waits for.
struct Awaited {
  std::int64_t fd = -1;
  Target target;
  bool paired = false;  // the other end is known, whether or not anybody holds it
  std::vector<Holder> holders;
  std::uint64_t holder_count = 0;
};

struct Blocked {
  Place place;
  std::string syscall;
  std::string text;
  std::optional<Target> target;
  double since = -1;
  std::vector<Awaited> awaited;
  std::optional<FutexUse> futex;
};

struct Ending {
  std::optional<int> code;
  std::string signal;
  bool core = false;
  Place place;
  std::uint32_t sender = 0;  // of the signal, if the log shows it
  double time = -1;
  bool told = true;  // false: by its call to exit(), the log has no line for its end (strace -qq)
};

struct ExitCall {
  int code = 0;
  Place place;
};

// One task from its start to its end; a pid that comes back is another one.
struct Process {
  std::uint32_t pid = 0;
  std::uint32_t parent = 0;
  std::uint32_t thread_of = 0;  // 0: it is no thread
  SharedWords argv;
  bool argv_known = false;
  std::optional<Ending> ending;
  std::unique_ptr<Blocked> blocked;
  std::optional<ExitCall> exit_call;
  double began = -1;
  bool seen = false;  // the log has a line of it
  SharedWords rank;   // RANK=3, SLURM_PROCID=3, … of its environment
  std::vector<TaskCall> calls;
  std::vector<Interruption> interruptions;
  std::vector<LastFailure> last_failures;  // a ring; of its threads too
  std::size_t next_failure = 0;
  std::vector<LastWord> last_words;  // a ring: what was written to descriptor 2
  std::vector<std::string> writing;  // files that were open for writing when it ended badly
  std::string stopped;               // by which signal, where nothing has made it go on since
  Place traceback;  // where Python began to print one: it looks for its sources then
  std::size_t next_word = 0;
};

// Processes that are told of. Beyond them, records of those that ended well make room for new ones,
// and of those that still wait nobody asks for what.
constexpr std::size_t kMostProcesses = 20'000;

// Files that are counted; what comes after is left out of the totals by file.
constexpr std::size_t kMostFiles = 50'000;
constexpr std::size_t kLongestText = 4096;  // of a call that an answer quotes

struct FileCount {
  std::uint64_t opens = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t written_bytes = 0;
  std::uint64_t errors = 0;
  std::uint64_t reads = 0;
  std::uint64_t writes = 0;
};

// A call that took long.
struct SlowCall {
  Match call;
  Pace pace = Pace::work;
};

struct Failure {  // of one (error, call, target)
  std::string error;
  std::string syscall;
  std::string path;
  Kind kind = Kind::unknown;
  std::uint64_t count = 0;
  std::uint64_t injected = 0;
  Place first;
  std::uint32_t pid = 0;
  bool found_later = false;
};

// How the tracker fared against the annotations of -y.
struct Check {
  std::uint64_t uses = 0;
  std::uint64_t right = 0;
  std::uint64_t wrong = 0;
  std::uint64_t unknown = 0;
  std::vector<std::string> examples;
};

struct TrackerOptions {
  bool statistics = false;
  bool annotations = true;    // false hides them from the tracker, for the check
  bool by_entry = false;      // lines are in the order in which calls began (-ff with times)
  bool infer_sigbus = false;  // a SIGBUS on a mapped file is a hit
  std::vector<std::string> signals;
  std::vector<Query> queries;
  std::uint32_t only = 0;  // a process: hits and totals are of it and its threads alone
  std::size_t most_matches = 5000;
  std::size_t most_of_one = 5000;  // one errno of one call: a flood must not hide others
  Observer* observer = nullptr;    // is told of every event; Wanted::every makes all calls events
};

// {sa_family=AF_INET, sin_port=htons(9), sin_addr=inet_addr("127.0.0.1")} as 127.0.0.1:9; nothing
// if it is no address.
std::string address_words(std::string_view raw);

// Seconds of the stamp of a line, which may be as long as it wants; negative without one.
double time_of(const char* line, const char* end);

class CallRecord;
class Feed;

class Tracker {
 public:
  explicit Tracker(TrackerOptions options);
  ~Tracker();
  Tracker(const Tracker&) = delete;
  Tracker& operator=(const Tracker&) = delete;

  // Replays one block of file `file`, whose first line is number `first_line`. `upcoming` are the
  // forks that return in this block or soon after it. `file_pid` is the pid of a file of -ff.
  void replay(const Extract& block, std::uint32_t file, std::uint64_t first_line,
              std::uint32_t file_pid);
  void apply(const Event& event, std::uint32_t file, std::uint64_t first_line,
             std::uint32_t file_pid);
  // Keeps the calls that had begun where a block ends: its text goes away.
  void keep_begun(const Extract& block, std::uint32_t file, std::uint64_t first_line,
                  std::uint32_t file_pid);
  // Adds what was counted of a block, behind its replay.
  void absorb(const Extract& block, std::uint32_t file, std::uint64_t first_line,
              std::uint32_t file_pid);
  void announce(const std::vector<std::pair<std::uint32_t, std::uint32_t>>& forks);
  void finish();
  // Whether a task with this pid has been seen, or forked, already.
  bool knows(std::uint32_t pid) const { return tasks_.contains(pid); }

  const std::vector<Match>& matches() const noexcept { return matches_; }
  std::uint64_t match_count() const noexcept { return match_count_; }
  const std::deque<Process>& processes() const noexcept { return processes_; }
  const std::unordered_map<std::string, FileCount>& files() const noexcept { return files_; }
  const std::vector<Failure>& failures() const noexcept { return failures_; }
  const Check& check() const noexcept { return check_; }
  // Processes that ended well and are not among processes(), since there were too many.
  std::uint64_t forgotten() const noexcept { return forgotten_; }
  // Whether anything can have been asked for through a ring: one that was only set up hides
  // nothing.
  bool used_io_uring() const noexcept { return io_uring_; }
  std::vector<std::string> open_for_writing() const { return writable_; }
  std::uint64_t opens_seen() const noexcept { return opens_; }
  std::uint64_t unmatched_halves() const noexcept { return lone_halves_; }
  // Names without folders of shared libraries that were opened, as the program asked for them, and
  // of archives (libx.a), which a linker takes where there is no shared one.
  const std::unordered_set<std::string>& libraries() const noexcept { return libraries_; }
  const std::vector<SlowCall>& slow() const noexcept { return slow_; }
  const std::vector<Connection>& connections() const noexcept { return connections_; }
  const std::vector<Timeout>& timeouts() const noexcept { return timeouts_; }
  const std::vector<NameMessage>& name_messages() const noexcept { return name_messages_; }
  const std::unordered_map<std::string, FolderCount>& folders() const noexcept { return folders_; }
  const std::vector<std::uint64_t>& late_nanoseconds() const noexcept { return late_nanoseconds_; }
  double first_time() const noexcept { return first_time_; }
  double last_time() const noexcept { return last_time_; }

 private:
  friend class CallRecord;
  friend class Feed;
  friend class Task;
  struct Context {
    std::uint32_t file;
    std::uint64_t first_line;
    std::uint32_t file_pid;
  };

  void apply_call(Task& task, const Event& event, const Context& context);
  Task& task_of(const Event& event, const Context& context);
  Task& start(std::uint32_t pid, Task* parent, bool thread, bool share_table, bool share_directory,
              bool share_memory);
  Task* parent_waiting_for(std::uint32_t pid);
  Task* unborn(std::uint32_t pid);
  // The log's number for a pid that a task names; 0 if a namespace hides it.
  std::uint32_t log_pid(const Task& task, std::uint32_t number) const;
  void began(Task& task, const Event& event, const Context& context);
  void ended(Task& task, const Event& event, const Context& context);
  void effect(Task& task, const Event& event, const Opened& by);
  void opened(Task& task, const Event& event, const Opened& by);
  void created(Task& task, const Event& event, const Opened& by);
  void pair(Task& task, const Event& event, const Opened& by);
  void forked(Task& task, const Event& event);
  void executed(Task& task, const Event& event);
  void sent(Task& task, std::string_view arguments);
  void received(Task& task, std::string_view arguments, const Opened& by);
  void mapped(Task& task, const Event& event);
  void ring_made(Task& task, const Event& event, const Opened& by);
  void ring_entered(const Task& task, std::int64_t fd, std::int64_t all_of, const Result& result);
  void submitted(Task& task, const Event& event);
  void reaped(Task& task, const Event& event);
  void failed_within(Task& task, const Event& event, const Context& context);
  Target completed(Task& task, const Event& event, std::string_view arguments, std::int64_t& fd);
  void unmapped(Task& task, std::uint64_t start, std::uint64_t length);
  void renamed(Task& task, const Event& event);
  void unlinked(Task& task, std::int64_t directory, std::string_view raw);
  void transferred(Task& task, const Event& event, const Opened& by);
  void asked_name(Task& task, const Event& event, const Description& socket, Place place);
  void killed(Task& task, const Event& event);
  void signalled(Task& task, const Event& event, const Context& context);
  void exited(Task& task, const Event& event, const Context& context);
  void told_of(Task& task, const Event& event, const Context& context, std::string_view name,
               Target target, bool inferred);
  void superseded(Task& task, std::uint32_t by);
  bool is_orphan(const Task& task) const;
  static bool hides_flags(std::uint16_t call, std::string_view arguments);
  void settle(Task& task, Op first);
  void checked(Task& task, const Event& event);
  void hit(Task& task, const Event& event, const Context& context);
  std::vector<std::pair<std::string, std::uint64_t>> holders(const Task& task) const;
  void failed(Task& task, const Event& event, const Context& context);
  void failed_on_files();
  void note_writing(const Task& task);
  Target target_of(Task& task, const Call& call, std::string_view arguments, const Event& event,
                   std::int64_t& fd);
  Target target_of_fd(Task& task, const FdArgument& fd);
  std::string resolve(Task& task, const FdArgument& directory, std::string_view raw,
                      std::shared_ptr<Directory>* base = nullptr);
  std::string below(const std::string& folder, const std::string& path);
  std::int32_t through_proc(Task& task, const std::string& path);
  std::string full_text(Task& task, const Event& event, const Context& context,
                        std::uint64_t& entry_line);
  std::string full_arguments(Task& task, const Event& event);
  // The same without a copy where the log has them in one piece; `room` holds them otherwise.
  std::string_view full_arguments(Task& task, const Event& event, std::string& room);
  Blocked blocked_in(Task& task, std::string_view line, Place place);
  void release(Task& task);
  void forget_tasks();
  Process& process_of(const Task& task);
  bool counted(const Task& task) const noexcept;
  void slow(Task& task, const Event& event, const Context& context);
  Match match_of(Task& task, const Event& event, const Context& context);
  bool asked(const Match& match, const Event& event) const;
  void measure(Task& task, Event& event);
  void waited(Task& task, const Event& event, const Context& context);
  const Description* plain_file(Task& task, const Event& event) const;
  void last_failed(Task& task, std::string_view name, const Event& event, std::string_view path,
                   std::string_view flags, const Context& context);
  void interrupted(Task& task, const Event& event);
  void asked_to_end(Task& task, std::string_view name, Place place);
  void said(Task& task, const Event& event, Place place);
  void looked_up(Task& task, const Event& event, const Context& context);
  FolderCount& folder(std::string path);
  void tallied(Task& task, const Tally& tally);
  void announce_connect(std::int32_t one);
  void connected(Task& task, const Event& event, const Opened& by);
  void accepted(Task& task, const Event& event, std::int32_t index, const Opened& by);
  void socket_error(Task& task, const Event& event);
  void works(std::int32_t connection);
  void silent(std::int32_t connection, const Event& event, std::string_view text, Place place);
  void watched(Task& task, const Event& event);
  std::vector<std::int64_t> waits_for(Task& task, std::string_view name,
                                      std::string_view arguments);
  Awaited awaited(Task& task, const FdArgument& fd);
  void gone(const Description& description);

  TrackerOptions options_;
  Descriptions descriptions_;
  std::unordered_map<std::uint32_t, std::unique_ptr<Task>> tasks_;
  std::unordered_map<std::uint32_t, std::uint32_t> upcoming_;  // child to parent
  void forks(Task& task);
  void forks_no_more(Task& task);

  std::map<std::uint64_t, std::uint32_t> forking_;  // in the order of their forks
  std::uint64_t next_fork_ = 1;
  std::map<std::uint32_t, Task*> living_;  // by their place in `processes_`
  std::vector<std::uint32_t> unborn_;  // children by their numbers in a pid namespace, not yet seen
  std::uint32_t next_unborn_ = 0;
  std::unordered_map<std::uint32_t, std::uint32_t> inner_pids_;  // in a namespace, to the log's
  Task* anonymous_ = nullptr;                                    // lines without a pid are its
  Task* last_ = nullptr;
  std::unordered_map<std::string, std::vector<std::int32_t>> connecting_;  // by address
  std::unordered_map<std::string, std::vector<std::int32_t>> accepting_;   // the same, by_entry
  std::vector<std::int32_t> sent_unpaired_;
  std::vector<Match> matches_;
  std::uint64_t match_count_ = 0;
  std::unordered_map<std::string, std::size_t> kept_;  // matches by errno and call
  std::deque<Process> processes_;                      // many, which a vector would copy to grow
  std::vector<std::uint32_t> spent_;                   // of processes that ended well
  std::uint64_t forgotten_ = 0;
  std::unordered_map<std::string, FileCount> files_;
  // Begins each hash, so that no log can be written whose failures all have the same one.
  const std::uint64_t seed_ = std::random_device{}();
  HashIndex failure_index_;
  std::vector<Failure> failures_;
  Check check_;
  std::vector<std::string> writable_;
  std::unordered_set<std::string> libraries_;
  std::unordered_map<std::uint32_t, std::pair<std::string, std::uint32_t>> killers_;  // by victim
  std::unordered_map<std::uint32_t, std::deque<AioRequest>> requests_;                // by process
  std::vector<AioEnd> ends_;  // of the call that is being taken apart
  std::vector<SlowCall> slow_;
  std::vector<Connection> connections_;
  std::vector<Timeout> timeouts_;
  std::vector<NameMessage> name_messages_;
  std::unordered_map<std::string, std::size_t> timeout_index_;
  std::unordered_map<std::string, FolderCount> folders_;
  FutexUses futexes_;
  std::vector<std::uint64_t> late_nanoseconds_;  // by call: of halves in different blocks
  double first_time_ = -1;
  double last_time_ = -1;
  std::uint64_t slots_searched_ = 0;
  std::uint64_t opens_ = 0;
  std::uint64_t lone_halves_ = 0;
  bool io_uring_ = false;
};

}  // namespace pm::strace
