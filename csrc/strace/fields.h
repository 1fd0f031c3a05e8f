// What a report calls the fields of records: the names of facts/syscalls.py, in their order.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "strace/extract.h"
#include "strace/records.h"

namespace pm {

using namespace strace;  // NOLINT: the descriptions stand in the namespace of what they specialise

template <>
inline constexpr auto kFields<Place> =
    std::tuple(field<Told::file>("file", &Place::file), field("line", &Place::line));

template <>
inline constexpr auto kFields<Opened> =
    std::tuple(field<Told::inside>("", &Opened::place), field("pid", &Opened::pid),
               field("syscall", [](const Opened& one) {
                 return one.call == kUnknownCall ? std::string_view() : call_at(one.call).name;
               }));

// A number that was given by no call of the log has no place.
constexpr auto given_by(std::optional<Opened> Target::* member) {
  return [member](const Target& target) {
    const std::optional<Opened>& by = target.*member;
    return by && by->place.line != 0 ? by : std::nullopt;
  };
}

template <>
inline constexpr auto kFields<Target> = std::tuple(
    field<Told::or_none>("path", &Target::path), field("kind", &Target::kind),
    field("source", &Target::origin), field("deleted", &Target::deleted),
    field("nameless", &Target::nameless), field("guessed", &Target::guessed),
    field("opened", given_by(&Target::opened)), field("given", given_by(&Target::given)),
    field("flags", &Target::flags), field("label", &Target::label),
    field("written_bytes", &Target::written_bytes), field("read_bytes", &Target::read_bytes));

template <>
inline constexpr auto kFields<Caller> = std::tuple(
    field("pid", &Caller::pid), field<Told::or_none>("ppid", &Caller::parent),
    field<Told::or_none>("thread_of", &Caller::thread_of),
    field<Told::or_none>("argv", &Caller::argv), field("environment", &Caller::environment));

template <>
inline constexpr auto kFields<CallParts> =
    std::tuple(field("arguments", &CallParts::arguments), field("returned", &CallParts::returned));

template <>
inline constexpr auto kFields<Match> = std::tuple(
    field<Told::inside>("", &Match::place), field<Told::or_none>("began_line", &Match::entry_line),
    field("pid", [](const Match& one) { return one.task.pid; }),
    field<Told::or_none>("time", &Match::time), field("syscall", &Match::syscall),
    field("text", &Match::text),
    field<Told::inside>("", [](const Match& one) { return take_apart(one.text); }),
    field<Told::or_none>("errno", &Match::error), field<Told::or_none>("fd", &Match::fd),
    field("target", &Match::target), field("task", &Match::task),
    field("injected", &Match::injected), field("inferred", &Match::inferred),
    field("holders", &Match::holders),
    field<Told::seconds_or_none>("seconds", &Match::nanoseconds));

template <>
inline constexpr auto kFields<SlowCall> = std::tuple(
    field("match", &SlowCall::call),
    field<Told::seconds>("seconds", [](const SlowCall& one) { return one.call.nanoseconds; }),
    field("pace", &SlowCall::pace));

template <>
inline constexpr auto kFields<Holder> =
    std::tuple(field("pid", &Holder::pid), field("fd", &Holder::fd));

template <>
inline constexpr auto kFields<Awaited> =
    std::tuple(field("fd", &Awaited::fd), field("target", &Awaited::target),
               field("other_end_known", &Awaited::paired), field("holders", &Awaited::holders),
               field("holder_count", &Awaited::holder_count));

template <>
inline constexpr auto kFields<FutexUse> =
    std::tuple(field<Told::or_none>("woken_by", &FutexUse::woken_by),
               field("woken_line", [](const FutexUse& one) { return one.woken.line; }),
               field<Told::or_none>("passed_by", &FutexUse::passed_by),
               field("passed_line", [](const FutexUse& one) { return one.passed.line; }));

template <>
inline constexpr auto kFields<Blocked> =
    std::tuple(field<Told::inside>("", &Blocked::place), field("syscall", &Blocked::syscall),
               field("text", &Blocked::text),
               field<Told::inside>("", [](const Blocked& one) { return take_apart(one.text); }),
               field("target", &Blocked::target), field<Told::or_none>("since", &Blocked::since),
               field("awaited", &Blocked::awaited), field("futex", &Blocked::futex));

template <>
inline constexpr auto kFields<Ending> =
    std::tuple(field<Told::inside>("", &Ending::place), field("code", &Ending::code),
               field<Told::or_none>("signal", &Ending::signal), field("core", &Ending::core),
               field<Told::or_none>("sender_pid", &Ending::sender),
               field<Told::or_none>("fault", &Ending::fault),
               field<Told::or_none>("time", &Ending::time), field("told", &Ending::told));

template <>
inline constexpr auto kFields<TaskCall> = std::tuple(
    field("name", [](const TaskCall& one) { return call_at(one.call).name; }),
    field("calls", &TaskCall::calls), field<Told::seconds>("seconds", &TaskCall::nanoseconds),
    field("brought", &TaskCall::brought), field("again", &TaskCall::again),
    field<Told::inside>("", &TaskCall::last), field("text", &TaskCall::text),
    field<Told::inside>("", [](const TaskCall& one) { return take_apart(one.text); }));

template <>
inline constexpr auto kFields<Interruption> =
    std::tuple(field("signal", &Interruption::signal),
               field<Told::or_none>("sender_pid", &Interruption::sender),
               field<Told::inside>("", &Interruption::place), field("pid", &Interruption::pid),
               field<Told::or_none>("syscall", &Interruption::syscall),
               field<Told::or_none>("target", &Interruption::target),
               field<Told::seconds>("seconds", &Interruption::nanoseconds));

template <>
inline constexpr auto kFields<LastFailure> = std::tuple(
    field("errno", &LastFailure::error), field("syscall", &LastFailure::syscall),
    field<Told::or_none>("path", &LastFailure::path), field<Told::inside>("", &LastFailure::place),
    field("pid", &LastFailure::pid), field("direct", &LastFailure::direct));

template <>
inline constexpr auto kFields<Process> = std::tuple(
    field("pid", &Process::pid), field<Told::or_none>("ppid", &Process::parent),
    field<Told::or_none>("thread_of", &Process::thread_of),
    field<Told::or_none>("argv", &Process::argv), field("ending", &Process::ending),
    field("blocked", &Process::blocked), field<Told::or_none>("began", &Process::began),
    field("recorded", &Process::recorded), field("environment", &Process::environment),
    field("calls",
          [](const Process& process) {
            std::vector<TaskCall> longest_first = process.calls;
            std::sort(longest_first.begin(), longest_first.end(), [](const auto& a, const auto& b) {
              return std::pair(a.nanoseconds, b.call) > std::pair(b.nanoseconds, a.call);
            });
            return longest_first;
          }),
    field("interruptions", &Process::interruptions),
    field("last_failures", &Process::last_failures),
    field("last_words",
          [](const Process& process) {
            std::vector<std::string> words;
            for (const LastWord& one : process.last_words) words.push_back(one.words);
            return words;
          }),
    field("last_word_lines",
          [](const Process& process) {
            std::vector<std::uint64_t> lines;
            for (const LastWord& one : process.last_words) lines.push_back(one.place.line);
            return lines;
          }),
    field("open_for_writing", &Process::open_for_writing),
    field<Told::or_none>("stopped", &Process::stopped));

template <>
inline constexpr auto kFields<Failure> =
    std::tuple(field("errno", &Failure::error), field("syscall", &Failure::syscall),
               field<Told::or_none>("path", &Failure::path), field("kind", &Failure::kind),
               field("count", &Failure::count), field("injected", &Failure::injected),
               field<Told::inside>("", &Failure::first), field("pid", &Failure::pid));

template <>
inline constexpr auto kFields<FileCount> = std::tuple(
    field("opens", &FileCount::opens), field("read_bytes", &FileCount::read_bytes),
    field("written_bytes", &FileCount::written_bytes), field("errors", &FileCount::errors),
    field("reads", &FileCount::reads), field("writes", &FileCount::writes));

template <>
inline constexpr auto kFields<FolderCount> =
    std::tuple(field("calls", &FolderCount::calls), field("errors", &FolderCount::errors),
               field<Told::seconds>("seconds", &FolderCount::nanoseconds),
               field<Told::or_none>("first", &FolderCount::first_time),
               field<Told::or_none>("last", &FolderCount::last_time));

template <>
inline constexpr auto kFields<Connection> = std::tuple(
    field("pid", &Connection::pid), field("fd", &Connection::fd), field("peer", &Connection::peer),
    field("result", &Connection::result), field<Told::inside>("", &Connection::place),
    field<Told::seconds>("seconds", &Connection::nanoseconds), field("asked", &Connection::asked),
    field("silent_waits", &Connection::silent_waits),
    field<Told::seconds>("silent_seconds", &Connection::silent_nanoseconds),
    field("silent_line", [](const Connection& one) { return one.silent.line; }),
    field("silent_text", &Connection::silent_text));

template <>
inline constexpr auto kFields<NameMessage> =
    std::tuple(field("pid", &NameMessage::pid), field<Told::inside>("", &NameMessage::place),
               field("answer", &NameMessage::answer), field("data", &NameMessage::data),
               field("peer", &NameMessage::peer));

template <>
inline constexpr auto kFields<Timeout> = std::tuple(
    field("syscall", &Timeout::syscall), field<Told::or_none>("target", &Timeout::target),
    field("text", &Timeout::text), field("count", &Timeout::count),
    field<Told::seconds>("seconds", &Timeout::nanoseconds),
    field<Told::inside>("", &Timeout::first), field("pid", &Timeout::pid));

template <>
inline constexpr auto kFields<CallCount> =
    std::tuple(field("calls", &CallCount::calls), field("errors", &CallCount::errors),
               field<Told::seconds>("seconds", &CallCount::nanoseconds));

template <>
inline constexpr auto kFields<Counts> =
    std::tuple(field("lines", &Counts::lines), field("calls", &Counts::calls),
               field("signals", &Counts::signals), field("exits", &Counts::exits),
               field("remarks", &Counts::remarks), field("output", &Counts::output),
               field("unparsed", &Counts::unparsed), field("pids", &Counts::pids),
               field("brackets", &Counts::brackets), field("times", &Counts::times),
               field("relative", &Counts::relative), field("epochs", &Counts::epochs),
               field("annotations", &Counts::annotations), field("colors", &Counts::colors),
               field("traces", &Counts::traces), field("summary", &Counts::summary),
               field("halves", &Counts::halves), field("durations", &Counts::durations),
               field("detached", &Counts::detached), field("cut", &Counts::cut));

template <>
inline constexpr auto kFields<Check> = std::tuple(
    field("uses", &Check::uses), field("right", &Check::right), field("wrong", &Check::wrong),
    field("unknown", &Check::unknown), field("examples", &Check::examples));

}  // namespace pm
