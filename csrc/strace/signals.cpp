// Signals and ends: who sent what to whom, and which of it a task died of.
#include <algorithm>
#include <utility>

#include "strace/tracker.h"

namespace pm::strace {
namespace {

constexpr std::size_t kMostKillers = 100'000;
constexpr int kMostGenerations = 64;
constexpr std::size_t kLongestFault = 200;

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

void Processes::sent_signal(Task& task, const Event& event) {
  const std::string_view all = view(event.arguments, event.arguments_end);
  const std::string_view name = event.call == kUnknownCall ? "" : call_at(event.call).name;
  const bool to_thread = name == "tgkill";
  const std::string_view signal = signal_name(argument_at(all, to_thread ? 2 : 1));
  std::int64_t victim = read_fd(argument_at(all, to_thread ? 1 : 0)).number;
  const bool group = name == "kill" && victim <= 0 && victim != -1;
  if (name == "pidfd_send_signal") {
    const std::int32_t one = task.table->at(victim);
    victim = one == kNone ? 0 : descriptions_.at(one).target_pid;
  } else if (victim > 0) {
    victim = log_pid(task, static_cast<std::uint32_t>(victim));
  } else if (group) {  // by who is at its head; of the sender's own group, by the sender
    victim = victim == 0 ? task.leader : log_pid(task, static_cast<std::uint32_t>(-victim));
  }
  if (victim <= 0 || signal.empty()) return;
  const auto known = killers_.find(static_cast<std::uint32_t>(victim));
  if (event.result.failed()) {
    if (known != killers_.end() && known->second.sender == task.leader) killers_.erase(known);
    return;
  }
  if (killers_.size() > kMostKillers) return;
  killers_[static_cast<std::uint32_t>(victim)] = {std::string(signal), task.leader, group};
}

// Who starts a process has it in its group, until that makes one of its own.
std::uint32_t Processes::killer_of(const Task& task, std::string_view signal) const {
  std::uint32_t pid = task.leader;
  for (int generation = 0; generation < kMostGenerations && pid != 0; ++generation) {
    const auto killer = killers_.find(pid);
    if (killer != killers_.end() && killer->second.signal == signal &&
        (generation == 0 || killer->second.group)) {
      return killer->second.sender;
    }
    const Task* const one = find(pid);
    pid = one ? record_of(*one).parent : 0;
  }
  return 0;
}

void Tracker::signalled(Task& task, const Event& event, Place place) {
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
  std::string& stopped = processes_.leader_record_of(task).stopped;
  stopped.clear();
  if (body.starts_with(kStopped)) {
    const std::string_view rest = body.substr(kStopped.size(), 16);
    stopped = rest.substr(0, rest.find(' '));
    return;
  }
  const auto sender = static_cast<std::uint32_t>(field("si_pid="));
  // The kernel gives SIGPIPE to who wrote, with its own pid as if it had sent it to itself.
  if (name == "SIGPIPE" && sender != 0) processes_.named_itself(task, sender);
  if (name == "SIGCHLD") {
    processes_.child_ended(task, sender, body, event, place);
  }
  // Whatever the code is called (-X raw writes numbers): only who sends one is named by its pid.
  Signals& signals = task.signals();
  signals.told = name;
  signals.sender = processes_.log_pid(task, sender);
  if (options_.statistics) {
    summary_.signalled(task, name, place);
  }
  if (Task* const leader = processes_.find(task.leader)) {
    leader->signals().last = name;
    // A handler that sends the signal again has no address: the fault was before.
    if (contains(body, "_addr=")) leader->signals().fault = body.substr(4, kLongestFault);
  }
  const bool asked =
      std::find(options_.signals.begin(), options_.signals.end(), name) != options_.signals.end();
  const bool no_page = contains(body, "BUS_ADRERR") || contains(body, "si_code=0x2,");
  const bool bus = name == "SIGBUS" && no_page;
  Target target;
  if (bus) target = files_.target_at(task, field("si_addr="));
  const bool inferred = bus && options_.infer_sigbus;
  if (asked || inferred) hits_.record_signal(task, event, place, name, std::move(target), inferred);
}

void Tracker::exited(Task& task, const Event& event, const BlockOrigin& origin) {
  const std::string_view body = event.text;
  constexpr std::string_view kSuperseded = "+++ superseded by execve in pid ";
  if (body.starts_with(kSuperseded)) {
    const char* at = body.data() + kSuperseded.size();
    processes_.superseded(task,
                          static_cast<std::uint32_t>(read_number(at, body.data() + body.size())));
    return;
  }
  Ending ending;
  ending.time = time_of(event.line, event.end);
  ending.place = origin.place(event.number);
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
    if (task.signals().told == ending.signal) ending.sender = task.signals().sender;
    // No task is told of SIGKILL: its end is all there is to see.
    const bool asked = std::find(options_.signals.begin(), options_.signals.end(), ending.signal) !=
                       options_.signals.end();
    if (asked && task.leader == task.pid && task.signals().last != ending.signal) {
      hits_.record_signal(task, event, ending.place, ending.signal, {}, false);
    }
    if (ending.sender == 0) ending.sender = processes_.killer_of(task, ending.signal);
    Task* const leader = processes_.find(task.leader);
    if (leader != nullptr && leader->signals().fault.starts_with(ending.signal)) {
      ending.fault = leader->signals().fault;
    }
  }
  Process& process = processes_.record_of(task);
  if (!ending.signal.empty() && ending.signal == task.signals().alarm.signal) {
    processes_.leader_record_of(task).interruptions.assign(1,
                                                           std::exchange(task.signals().alarm, {}));
  }
  if (ending.code != 0) {
    if (event.half == Half::here) {
      process.blocked = std::make_unique<Blocked>(waits_.blocked_in(
          task, view(event.entry, event.entry_end), origin.place(event.entry_number)));
    } else if (event.half == Half::elsewhere && task.begun) {
      process.blocked =
          std::make_unique<Blocked>(waits_.blocked_in(task, task.begun_line, task.begun_place));
    }
  }
  if (ending.code != 0 && task.leader == task.pid) {
    process.open_for_writing = files_.written_by(task);
  }
  processes_.ended(task, std::move(ending));
  processes_.release(task);
}

}  // namespace pm::strace
