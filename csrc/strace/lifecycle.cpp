// Births, programs and ends of tasks: fork, execve, exit.
#include <algorithm>
#include <utility>

#include "strace/processes.h"

namespace pm::strace {
namespace {

// Children that a pid namespace has numbers of its own for stand beyond all pids until they are
// seen.
constexpr std::uint32_t kPendingKeys = 0x80000000;
constexpr std::size_t kMostPending = 1000;
constexpr std::size_t kMostOfArguments = std::size_t{64} << 10;  // bytes, of one program
constexpr std::size_t kMostRankVariables = 32;

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
SharedWords read_rank_variables(std::string_view environment, const SharedWords& known) {
  if (!environment.starts_with('[')) return known;
  std::vector<std::string> variables;
  environment.remove_prefix(1);
  Arguments words(environment.data(), environment.data() + environment.size());
  std::string_view word;
  for (std::size_t count = 0; count < 4096 && words.next(word) && !word.starts_with(']'); ++count) {
    bool quoted;
    const std::string_view raw = quoted_part(word, quoted);
    for (const std::string_view name : kRankNames) {
      if (raw.starts_with(name) && raw.size() < name.size() + 12 &&
          variables.size() < kMostRankVariables) {
        variables.emplace_back(raw);
      }
    }
  }
  return variables;
}

}  // namespace

void Processes::forked(Task& task, const Event& event) {
  const std::string_view arguments = view(event.arguments, event.arguments_end);
  const auto child = static_cast<std::uint32_t>(event.result.value);
  upcoming_.erase(child);
  if (child == task.pid) return;  // no fork gives the caller's own number, but a log may say so
  const bool own_number = task.inner && !event.result.translated;
  if (own_number && task.fork_started) return;
  const Task* const known = find(child);
  if (task.fork_started && known) {
    // A child of vfork() may have ended before the call of its parent returned.
    const bool its = record_of(*known).parent == task.leader;
    if (known->live || its) return;
  }
  if (known && known->process > task.process && is_orphan(*known) &&
      !clone_shares(arguments, kCloneThread)) {
    record_of(*known).parent = task.leader;
    return;
  }
  const Shares shares{clone_shares(arguments, kCloneThread), clone_shares(arguments, kCloneFiles),
                      clone_shares(arguments, kCloneFs), clone_shares(arguments, kCloneVm)};
  if (own_number) {  // until its first line tells the log's number for it
    if (pending_children_.size() >= kMostPending) return;
    const std::uint32_t key = kPendingKeys + next_pending_child_++ % kPendingKeys;
    Task& made = start(key, &task, shares);
    made.inner_pid = record_of(made).pid = child;
    pending_children_.push_back(key);
    return;
  }
  Task& made = start(child, &task, shares);
  made.inner |= clone_shares(arguments, kCloneNewPid);
  if (hides_flags(event.call, arguments)) made.perhaps_thread_of = task.pid;
}

// Whether a task lives of which nobody knows who made it. With -z and -e status= lines stand where
// calls ended, so that a child may do and end much before its parent's fork does.
bool Processes::is_orphan(const Task& task) const {
  const Process& process = record_of(task);
  return task.live && task.named && process.parent == 0 && process.thread_of == 0 &&
         !process.exit_call;
}

// Whether the log has the address alone of what clone3() was asked: strace before 5.3, -e raw=.
bool Processes::hides_flags(std::uint16_t call, std::string_view arguments) {
  return call != kUnknownCall && call_at(call).name == "clone3" && !contains(arguments, "flags=");
}

// By what a task of such a clone3() does first: a thread of glibc (nptl/pthread_create.c) registers
// its lists, and a spawned process sets signals and descriptors up for its program. Taken for a
// process until then: nothing that it does is mistaken for its parent's.
void Processes::resolve_clone(Task& task, Op first) {
  const Task* const maker = find(std::exchange(task.perhaps_thread_of, 0));
  if (first != Op::thread || !maker || !maker->live) return;
  task.share(*maker);
  task.leader = maker->leader;
  record_of(task).parent = record_of(*maker).parent;
  record_of(task).thread_of = maker->leader;
}

void Processes::executed(Task& task, const Event& event) {
  if (task.table.use_count() > 1) task.table = std::make_shared<Table>(*task.table);
  task.table->clear_cloexec();
  task.memory = std::make_shared<Memory>(&descriptions_);
  const std::string_view all = view(event.arguments, event.arguments_end);
  const bool at = event.call != kUnknownCall && call_at(event.call).name == "execveat";
  Process& process = record_of(task);
  process.exit_call.reset();
  process.last_words = {};  // another program's, as a shell's that becomes the one it starts
  process.environment = read_rank_variables(argument_at(all, at ? 3 : 2), process.environment);
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
    // The list's last word has the bracket behind it.
    if (word.ends_with("...") || word.ends_with("...]")) plain += "…";
    if (plain.size() > room) plain = plain.substr(0, room) + "…";
    room -= std::min(room, plain.size());
    argv.push_back(std::move(plain));
  }
  process.argv = std::move(argv);
}

void Processes::ended(Task& task, Ending ending) {
  if (ending.code == 0) spent_.push_back(task.process);
  // What kills a thread kills its process, though the line of the first one may be cut off.
  if (!ending.signal.empty() && task.leader != task.pid) {
    Process& leader = leader_record_of(task);
    if (!leader.ending) leader.ending = ending;
  }
  record_of(task).ending = std::move(ending);
}

// {si_code=CLD_KILLED, si_status=SIGKILL, …} or [{WIFSIGNALED(s) && WTERMSIG(s) == SIGKILL}]
void Processes::child_ended(Task& parent, std::uint32_t pid, std::string_view told,
                            const Event& event, Place place) {
  const auto behind = [&](std::string_view word) {
    const std::size_t at = told.find(word);
    return at == std::string_view::npos ? std::string_view{} : told.substr(at + word.size());
  };
  pid = log_pid(parent, pid);
  const Task* child = find(pid);
  if (child && child->leader == pid && pid != parent.leader) {  // where its fork is not in the log
    Process& its = record_of(*child);
    if (its.parent == 0) its.parent = parent.leader;
  }
  Ending ending;
  ending.place = place;
  ending.time = time_of(event.line, event.end);
  ending.core = contains(told, "CLD_DUMPED") || contains(told, "WCOREDUMP");
  std::string_view status = behind("WTERMSIG(s) == ");
  if (ending.core || contains(told, "CLD_KILLED")) {
    if (status.empty()) status = behind("si_status=");
  }
  if (!status.empty()) {
    ending.signal = status.substr(0, status.find_first_of(", })"));
  } else {
    status = contains(told, "CLD_EXITED") ? behind("si_status=") : behind("WEXITSTATUS(s) == ");
    if (status.empty()) return;  // stopped, or a number (-X raw)
    const char* digits = status.data();
    ending.code = static_cast<int>(read_number(digits, status.data() + status.size()));
  }
  // Where strace was attached, a child may be older than the log.
  if (!child && pid != 0 && !ending.signal.empty()) child = &start(pid, &parent, {});
  if (!child) return;
  Process& process = record_of(*child);
  if (process.recorded || process.ending) return;
  ending.sender = killer_of(*child, ending.signal);
  process.ending = std::move(ending);
  process.argv = {};  // its parent's, and nobody saw what it became
  process.argv_known = false;
}

void Processes::reaped(Task& parent, const Event& event, Place place) {
  const std::string_view all = view(event.arguments, event.arguments_end);
  constexpr std::string_view kChild = "si_pid=";  // of waitid(), which returns 0
  const std::size_t at = all.find(kChild);
  std::int64_t pid = event.result.value;
  if (at != std::string_view::npos) {
    const char* digits = all.data() + at + kChild.size();
    pid = read_number(digits, all.data() + all.size());
  }
  child_ended(parent, static_cast<std::uint32_t>(pid), all, event, place);
}

void Processes::release(Task& task) {
  task.live = false;
  task.begun = false;
  task.pending.is = false;
  leave_fork_order(task);
  living_.erase(task.process);
  task.table = std::make_shared<Table>(&descriptions_);
  task.memory = std::make_shared<Memory>(&descriptions_);
  task.fork_table.reset();
  if (anonymous_ == &task) anonymous_ = nullptr;
  if (last_ == &task) last_ = nullptr;
}

void Processes::superseded(Task& task, std::uint32_t by) {
  Task* const taker = find(by);
  if (!taker || taker == &task) return;
  task.share(*taker);
  task.pending = taker->pending;
  task.begun = taker->begun;
  task.begun_line = taker->begun_line;
  task.begun_place = taker->begun_place;
  release(*taker);
}

void Processes::unshared(Task& task, const Event& event) {
  const bool worked = event.result.worked();
  const std::string_view all = view(event.arguments, event.arguments_end);
  if (event.op == Op::setns) {
    const std::string_view kind = argument_at(all, 1);
    task.inner_children |= worked && has_flag(kind, kCloneNewPid.name, kCloneNewPid.bit);
    return;
  }
  if (!worked) return;
  const std::string_view flags = argument_at(all, 0);
  if (has_flag(flags, kCloneFiles.name, kCloneFiles.bit))
    task.table = std::make_shared<Table>(*task.table);
  if (has_flag(flags, kCloneFs.name, kCloneFs.bit)) {
    task.directory = std::make_shared<Directory>(*task.directory);
    task.root = std::make_shared<SharedText>(*task.root);
  }
  task.inner_children |= has_flag(flags, kCloneNewPid.name, kCloneNewPid.bit);
}

bool Processes::named_itself(Task& task, std::uint32_t pid) {
  if (task.named) return false;
  if (!tasks_.contains(pid)) rename(task, pid);
  return true;
}

void Processes::named_itself(Task& task, const Event& event) {
  const auto pid = static_cast<std::uint32_t>(event.result.value);
  if (named_itself(task, pid)) return;
  // getpid() of a thread gives another number by nature.
  const bool own = event.call != kUnknownCall && call_at(event.call).name != "getpid";
  if (!own || event.result.value == task.pid || event.result.translated) return;
  task.inner = true;
  task.inner_pid = pid;
  note_inner_pid(task);
}

}  // namespace pm::strace
