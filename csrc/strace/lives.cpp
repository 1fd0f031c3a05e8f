// Births, programs and ends of tasks: fork, execve, signals, exit.
#include <algorithm>
#include <utility>

#include "strace/task.h"
#include "strace/tracker.h"

namespace pm::strace {
namespace {

// Children that a pid namespace has numbers of its own for stand beyond all pids until they are
// seen.
constexpr std::uint32_t kUnbornKeys = 0x80000000;
constexpr std::size_t kMostUnborn = 1000;
constexpr std::size_t kMostOfArguments = std::size_t{64} << 10;  // bytes, of one program
constexpr std::size_t kMostOfRank = 32;

}  // namespace

namespace {

// What launchers tell a process of its place (torchrun, Slurm, Open MPI, MPICH, PMIx).
constexpr std::string_view kRankNames[] = {
    "RANK=",
    "LOCAL_RANK=",
    "WORLD_SIZE=",
    "GROUP_RANK=",
    "SLURM_PROCID=",
    "SLURM_LOCALID=",
    "SLURM_NTASKS=",
    "OMPI_COMM_WORLD_RANK=",
    "OMPI_COMM_WORLD_LOCAL_RANK=",
    "PMI_RANK=",
    "PMIX_RANK=",
    "MPI_LOCALRANKID=",
};

// Reads an environment as -v writes it. Without -v it is an address, and what is known stays.
SharedWords read_rank(std::string_view environment, const SharedWords& known) {
  if (!environment.starts_with('[')) return known;
  std::vector<std::string> rank;
  environment.remove_prefix(1);
  Arguments words(environment.data(), environment.data() + environment.size());
  std::string_view word;
  for (std::size_t count = 0; count < 4096 && words.next(word) && !word.starts_with(']'); ++count) {
    bool quoted;
    const std::string_view raw = quoted_part(word, quoted);
    for (const std::string_view name : kRankNames) {
      if (raw.starts_with(name) && raw.size() < name.size() + 12 && rank.size() < kMostOfRank) {
        rank.emplace_back(raw);
      }
    }
  }
  return rank;
}

}  // namespace

void Tracker::forked(Task& task, const Event& event) {
  const std::string_view arguments = view(event.arguments, event.arguments_end);
  const auto child = static_cast<std::uint32_t>(event.result.value);
  upcoming_.erase(child);
  if (child == task.pid) return;  // no fork gives the caller's own number, but a log may say so
  const bool own_number = task.inner && !event.result.translated;
  if (own_number && task.fork_started) return;
  const auto known = tasks_.find(child);
  if (task.fork_started && known != tasks_.end()) {
    // A child of vfork() may have ended before the call of its parent returned.
    const bool its = processes_[known->second->process].parent == task.leader;
    if (known->second->live || its) return;
  }
  if (known != tasks_.end() && known->second->process > task.process && is_orphan(*known->second) &&
      !clone_shares(arguments, kCloneThread)) {
    processes_[known->second->process].parent = task.leader;
    return;
  }
  const auto shares = [&](const CloneFlag& flag) { return clone_shares(arguments, flag); };
  if (own_number) {  // until its first line tells the log's number for it
    if (unborn_.size() >= kMostUnborn) return;
    const std::uint32_t key = kUnbornKeys + next_unborn_++ % kUnbornKeys;
    Task& made = start(key, &task, shares(kCloneThread), shares(kCloneFiles), shares(kCloneFs),
                       shares(kCloneVm));
    made.inner_pid = processes_[made.process].pid = child;
    unborn_.push_back(key);
    return;
  }
  Task& made = start(child, &task, shares(kCloneThread), shares(kCloneFiles), shares(kCloneFs),
                     shares(kCloneVm));
  made.inner |= shares(kCloneNewPid);
  if (hides_flags(event.call, arguments)) made.perhaps_thread_of = task.pid;
}

// Whether a task lives of which nobody knows who made it. With -z and -e status= lines stand where
// calls ended, so that a child may do and end much before its parent's fork does.
bool Tracker::is_orphan(const Task& task) const {
  const Process& process = processes_[task.process];
  return task.live && task.named && process.parent == 0 && process.thread_of == 0 &&
         !process.exit_call;
}

// Whether the log has the address alone of what clone3() was asked: strace before 5.3, -e raw=.
bool Tracker::hides_flags(std::uint16_t call, std::string_view arguments) {
  return call != kUnknownCall && call_at(call).name == "clone3" && !contains(arguments, "flags=");
}

// By what a task of such a clone3() does first: a thread of glibc (nptl/pthread_create.c) registers
// its lists, and a spawned process sets signals and descriptors up for its program. Taken for a
// process until then: nothing that it does is mistaken for its parent's.
void Tracker::settle(Task& task, Op first) {
  const auto found = tasks_.find(std::exchange(task.perhaps_thread_of, 0));
  if (first != Op::thread || found == tasks_.end() || !found->second->live) return;
  const Task& maker = *found->second;
  task.table = maker.table;
  task.directory = maker.directory;
  task.root = maker.root;
  task.memory = maker.memory;
  task.leader = maker.leader;
  processes_[task.process].parent = processes_[maker.process].parent;
  processes_[task.process].thread_of = maker.leader;
}

void Tracker::executed(Task& task, const Event& event) {
  if (task.table.use_count() > 1) task.table = std::make_shared<Table>(*task.table);
  task.table->clear_cloexec();
  task.memory = std::make_shared<Memory>(&descriptions_);
  const std::string_view all = view(event.arguments, event.arguments_end);
  const bool at = event.call != kUnknownCall && call_at(event.call).name == "execveat";
  Process& process = processes_[task.process];
  process.exit_call.reset();
  process.rank = read_rank(argument_at(all, at ? 3 : 2), process.rank);
  process.argv = {};
  std::string_view list = argument_at(all, at ? 2 : 1);
  process.argv_known = list.starts_with('[');
  if (!process.argv_known) {  // raw: at least the program may be known
    bool quoted;
    const std::string_view path = quoted_part(argument_at(all, at ? 1 : 0), quoted);
    if (quoted) {
      std::string plain;
      unescape(path, plain);
      process.argv = std::vector<std::string>{std::move(plain)};
    }
    return;
  }
  list.remove_prefix(1);
  Arguments words(list.data(), list.data() + list.size());
  std::string_view word;
  std::vector<std::string> argv;
  std::size_t room = kMostOfArguments;
  while (argv.size() < 256 && room > 0 && words.next(word) && !word.starts_with(']')) {
    bool quoted;
    const std::string_view raw = quoted_part(word, quoted);
    if (!quoted) break;
    std::string plain;
    unescape(raw, plain);
    if (word.ends_with("...")) plain += "…";
    if (plain.size() > room) plain = plain.substr(0, room) + "…";
    room -= std::min(room, plain.size());
    argv.push_back(std::move(plain));
  }
  process.argv = std::move(argv);
}

void Tracker::signalled(Task& task, const Event& event, const Context& context) {
  const std::string_view body = event.text;  // --- SIGBUS {si_signo=SIGBUS, …} ---
  const std::size_t name_end = body.find(' ', 4);
  const std::string_view name =
      body.substr(4, name_end == std::string_view::npos ? 0 : name_end - 4);
  const auto field = [&](std::string_view key) -> std::uint64_t {
    const std::size_t at = body.find(key);
    if (at == std::string_view::npos) return 0;
    const char* p = body.data() + at + key.size();
    return static_cast<std::uint64_t>(read_number(p, body.data() + body.size()));
  };
  // --- stopped by SIGTTIN --- ; the SIGCONT that lets it go on is told to one of its threads.
  constexpr std::string_view kStopped = "--- stopped by ";
  std::string& stopped = process_of(task).stopped;
  stopped.clear();
  if (body.starts_with(kStopped)) {
    const std::string_view rest = body.substr(kStopped.size(), 16);
    stopped = rest.substr(0, rest.find(' '));
    return;
  }
  // Whatever the code is called (-X raw writes numbers): only who sends one is named by its pid.
  task.told_signal = name;
  task.fatal_sender = log_pid(task, static_cast<std::uint32_t>(field("si_pid=")));
  if (options_.statistics) {
    asked_to_end(task, name, {context.file, context.first_line + event.number});
  }
  const auto leader = tasks_.find(task.leader);
  if (leader != tasks_.end()) leader->second->last_signal = name;
  const bool asked =
      std::find(options_.signals.begin(), options_.signals.end(), name) != options_.signals.end();
  const bool no_page = contains(body, "BUS_ADRERR") || contains(body, "si_code=0x2,");
  const bool bus = name == "SIGBUS" && no_page;
  Target target;
  if (bus) {
    const std::uint64_t address = field("si_addr=");
    const auto& mappings = task.memory->mappings();
    auto above = mappings.upper_bound(address);
    if (above != mappings.begin()) {
      --above;
      if (address < above->second.end && above->second.description != kNone) {
        const Description& one = descriptions_.at(above->second.description);
        target.path = one.whole_path();
        target.kind = one.kind;
        target.deleted = one.deleted;
        target.nameless = one.nameless;
        target.origin = Origin::tracked;
        target.opened = one.opened;
        target.flags = one.flags;
        target.label = one.label;
      }
    }
  }
  const bool inferred = bus && options_.infer_sigbus;
  if (asked || inferred) told_of(task, event, context, name, std::move(target), inferred);
}

// A match that is no call: a signal, or the end that it made.
void Tracker::told_of(Task& task, const Event& event, const Context& context, std::string_view name,
                      Target target, bool inferred) {
  if (!counted(task)) return;
  ++match_count_;
  if (matches_.size() >= options_.most_matches) return;
  const Process& process = processes_[task.process];
  Match match;
  match.place = {context.file, context.first_line + event.number};
  match.pid = task.pid;
  match.time = seconds_of(read_leader(event.line, event.end).time);
  match.syscall = std::string(name);
  match.text = std::string(event.text.substr(0, kLongestText));
  match.rank = process.rank;
  match.target = std::move(target);
  match.inferred = inferred;
  match.argv = process.argv;
  match.parent = process.parent;
  match.thread_of = process.thread_of;
  matches_.push_back(std::move(match));
}

void Tracker::exited(Task& task, const Event& event, const Context& context) {
  const std::string_view body = event.text;
  constexpr std::string_view kSuperseded = "+++ superseded by execve in pid ";
  if (body.starts_with(kSuperseded)) {
    const char* at = body.data() + kSuperseded.size();
    superseded(task, static_cast<std::uint32_t>(read_number(at, body.data() + body.size())));
    return;
  }
  Ending ending;
  ending.time = time_of(event.line, event.end);
  ending.place = {context.file, context.first_line + event.number};
  constexpr std::string_view kExited = "+++ exited with ";
  constexpr std::string_view kKilled = "+++ killed by ";
  if (body.starts_with(kExited)) {
    const char* at = body.data() + kExited.size();
    ending.code = static_cast<int>(read_number(at, body.data() + body.size()));
  } else if (body.starts_with(kKilled)) {
    const std::string_view rest = body.substr(kKilled.size());
    ending.signal = std::string(rest.substr(0, rest.find(' ')));
    ending.core = rest.find("core dumped") != std::string_view::npos;
    // A child that ended sent a SIGCHLD: it is not who sends the SIGKILL that comes later.
    if (task.told_signal == ending.signal) ending.sender = task.fatal_sender;
    // No task is told of SIGKILL: its end is all there is to see.
    const bool asked = std::find(options_.signals.begin(), options_.signals.end(), ending.signal) !=
                       options_.signals.end();
    if (asked && task.leader == task.pid && task.last_signal != ending.signal) {
      told_of(task, event, context, ending.signal, {}, false);
    }
    const auto killer = killers_.find(task.leader);
    if (ending.sender == 0 && killer != killers_.end() && killer->second.first == ending.signal) {
      ending.sender = killer->second.second;
    }
  }
  Process& process = processes_[task.process];
  process.ending = ending;
  if (!ending.signal.empty() && ending.signal == task.alarm.signal) {
    process_of(task).interruptions.assign(1, std::exchange(task.alarm, {}));
  }
  if (ending.code != 0) {
    if (event.half == Half::here) {
      process.blocked = std::make_unique<Blocked>(
          blocked_in(task, view(event.entry, event.entry_end),
                     {context.file, context.first_line + event.entry_number}));
    } else if (event.half == Half::elsewhere && task.begun) {
      process.blocked =
          std::make_unique<Blocked>(blocked_in(task, task.begun_line, task.begun_place));
    }
  }
  if (ending.code == 0) spent_.push_back(task.process);
  if (ending.code != 0 && task.leader == task.pid) note_writing(task);
  release(task);
}

// What a process may have left half written: the only trace of it where no write is recorded.
void Tracker::note_writing(const Task& task) {
  constexpr std::size_t kMostWriting = 8;
  constexpr std::int64_t kMostSearched = 4096;
  auto& writing = processes_[task.process].writing;
  task.table->each([&](std::int64_t number, const Slot& slot) {
    const Description& one = descriptions_.at(slot.description);
    const bool writes = contains(one.flags, "O_WRONLY") || contains(one.flags, "O_RDWR");
    if (writes && one.kind == Kind::file) {
      std::string path = one.whole_path();
      if (std::find(writing.begin(), writing.end(), path) == writing.end()) {
        writing.push_back(std::move(path));
      }
    }
    return number < kMostSearched && writing.size() < kMostWriting;
  });
}

void Tracker::release(Task& task) {
  task.live = false;
  task.begun = false;
  task.pending.is = false;
  forks_no_more(task);
  living_.erase(task.process);
  task.table = std::make_shared<Table>(&descriptions_);
  task.memory = std::make_shared<Memory>(&descriptions_);
  task.fork_table.reset();
  if (anonymous_ == &task) anonymous_ = nullptr;
  if (last_ == &task) last_ = nullptr;
}

// execve() in a thread other than the first: it takes over the pid of its process, and the first
// thread is gone.
void Tracker::superseded(Task& task, std::uint32_t by) {
  const auto found = tasks_.find(by);
  if (found == tasks_.end() || found->second.get() == &task) return;
  Task& taker = *found->second;
  task.table = taker.table;
  task.directory = taker.directory;
  task.root = taker.root;
  task.memory = taker.memory;
  task.pending = taker.pending;
  task.begun = taker.begun;
  task.begun_line = taker.begun_line;
  task.begun_place = taker.begun_place;
  release(taker);
}

}  // namespace pm::strace
