#include <algorithm>
#include <map>

#include "ranklogs/clean.h"
#include "ranklogs/forms.h"
#include "ranklogs/loggers.h"
#include "ranklogs/words.h"

namespace pm::ranklogs {
namespace {

constexpr std::int64_t kFewTasks = 1024;
constexpr std::size_t kSparse = 16;
constexpr std::size_t kFewRising = 64;

// Counts lines that have one form, and who they say wrote them.
struct Count {
  std::size_t lines = 0;
  std::map<std::string, std::size_t> writers;
  std::int64_t largest = 0;  // of numbers
  std::int64_t last = -1;
  std::size_t falls = 0;  // numbers lower than the one before them
  std::size_t stays = 0;  // numbers that are the one before them

  void add(std::int64_t number) {
    largest = std::max(largest, number);
    falls += number < last;
    stays += number == last;
    last = number;
    add(std::to_string(number));
  }
  void add(std::string writer) {
    ++lines;
    if (writers.size() < 100000) ++writers[std::move(writer)];
  }
  // A numbered list names every number once; writers come again.
  bool repeats() const { return lines <= 8 || writers.size() * 2 <= lines; }
  // Steps are counted up, several lines each; tasks write in turns.
  bool rises() const {
    return writers.size() > kFewRising && falls * 8 < writers.size() && stays * 2 >= lines;
  }
  // Ranks begin at 0: a process number, or a year, is one of few far from it.
  bool dense() const {
    if (rises()) return false;
    return largest <= kFewTasks || static_cast<std::size_t>(largest) <= kSparse * writers.size();
  }
};

// Whether a blank stands between mpirun's tag and the text: Open MPI 5 puts one there, 4 does not.
struct TagBlanks {
  std::size_t tags = 0, blanks = 0;

  void count(std::string_view text) {
    Prefix prefix;
    const std::size_t size = certain_bracket(text, prefix);
    if (!size || !text.substr(0, size).ends_with(">:")) return;
    ++tags;
    blanks += text.size() == size || text[size] == ' ';
  }
};

// What stands before the frames of tracebacks, if the same stands before nearly all of them: that
// is no part of what Python, or a signal's handler, wrote, whatever its form.
struct Frames {
  // What a level says counts: it is no part of the prefix, but of what was written.
  struct Split {
    std::string shape, behind;
    bool levels = false;
    auto operator<=>(const Split&) const = default;
  };
  std::size_t lines = 0;
  std::map<Split, std::size_t> shapes;

  void count(std::string_view text) {
    constexpr std::size_t kShortest = 3, kLongest = 160, kMostShapes = 1000;
    const std::size_t at = std::min(python_at(text), native_at(text));
    if (at == std::string_view::npos) return;
    ++lines;
    const std::string_view before = text.substr(0, at);
    if (before.find_last_not_of(" |+") == std::string_view::npos || before.size() > kLongest)
      return;
    const bool quoted = before.find_first_not_of("> ") == std::string_view::npos;
    if (!quoted && before.find_last_not_of(' ') + 1 < kShortest) return;
    if (shapes.size() < kMostShapes) ++shapes[split(before)];
  }

  // Gives what most have to a grammar, if nearly all have it.
  void settle(Grammar& grammar) const {
    const auto best =
        std::max_element(shapes.begin(), shapes.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    if (best == shapes.end() || best->second * 10 < lines * 8) return;
    grammar.levels = best->first.levels;
    grammar.shape = best->first.shape;
    grammar.behind_level = best->first.behind;
  }

  static std::size_t python_at(std::string_view text) {
    const std::size_t at = text.find("  File \"");
    const bool frame =
        at != std::string_view::npos && text.find("\", line ", at) != std::string_view::npos;
    return frame ? at : std::string_view::npos;
  }

  // " 0  /lib/libc.so.6(abort+0x12b) [0x7f5a6c0b6bdc]", as a signal's handler prints its own.
  static std::size_t native_at(std::string_view text) {
    if (!text.ends_with(']') || text.find("+0x") == std::string_view::npos ||
        text.find(") [0x") == std::string_view::npos) {
      return std::string_view::npos;
    }
    std::size_t at = text.find(" /");
    if (at == std::string_view::npos) return at;
    while (at && text[at - 1] == ' ') --at;
    const std::size_t number = at;
    while (at && is_digit(text[at - 1])) --at;
    if (at == number || (at && text[at - 1] != ' ')) return std::string_view::npos;
    return at > 1 && text[at - 2] == ' ' ? at - 1 : at;
  }

  static Split split(std::string_view before) {
    const Level level = level_in(before);
    if (!level.size) return {masked(before), {}, false};
    return {masked(before.substr(0, level.at)), masked(before.substr(level.at + level.size)), true};
  }
};

// "Status:         Failed": a column of kubectl describe, and no host.
bool is_field(std::string_view name, std::string_view text) noexcept {
  return name.front() >= 'A' && name.front() <= 'Z' && text.substr(name.size()).starts_with(":  ");
}

// "2: [conv1, conv2 ...]": what Horovod says that a rank lacks, and no line of a task.
bool is_list(std::string_view text) noexcept {
  return text.starts_with('[') && text.find(']') + 1 == text.size();
}

// "[12] /lib/libc.so.6(+0x26)[0x7f12]": a frame of glibc's backtrace_symbols() with its number.
bool is_numbered_frame(std::string_view text) noexcept {
  return text.ends_with(']') && text.find("[0x") != std::string_view::npos;
}

// What srun and slurmstepd write between the lines of tasks, and never with a task's number.
bool is_of_slurm(std::string_view text) noexcept {
  return text.starts_with("srun: ") || text.starts_with("slurmstepd: ");
}

struct Ballot {
  Count task, node, tee, number, service, journal;
  Frames frames;
  std::size_t time = 0;
  std::size_t full_tasks = 0;  // without blanks before them
  std::size_t lines = 0;

  void count(std::string_view text) {
    Prefix prefix;
    std::int64_t task_number = 0;
    std::size_t size = 0;
    if (time_at(text)) ++time;
    frames.count(text);
    if (const std::size_t at = task_at(text, task_number); at && !is_list(text.substr(at))) {
      task.add(task_number);
      full_tasks += text.front() != ' ';
    }
    if (const std::string_view name = node_at(text, size);
        !name.empty() && !is_log_word(name) && !is_field(name, text)) {
      node.add(std::string(name));
    }
    if (voted_bracket(text, true, false, prefix)) {
      tee.add(std::string(prefix.host) + ":" + std::to_string(prefix.local));
    }
    if (voted_bracket(text, false, true, prefix) && !is_numbered_frame(text))
      number.add(prefix.task);
    Prefix unit;
    if (journal_at(text, unit)) journal.add(std::string(unit.host) + std::to_string(unit.pid));
    if (const std::string_view name = service_at(text, size); !name.empty()) {
      service.add(std::string(name));
    }
  }
};

// Calls `take` with each line of a sample that says anything.
void each_line(std::string_view sample, const auto& take) {
  std::string clean;
  while (!sample.empty()) {
    const std::size_t end = std::min(sample.find('\n'), sample.size());
    std::string_view line = sample.substr(0, end);
    sample.remove_prefix(std::min(end + 1, sample.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    line = without_controls(line, clean);
    if (!line.empty() && !is_of_slurm(line)) take(line);
  }
}

// Numbers 0 to n-1, all there, each on so many lines.
bool all_there(const Count& count, std::size_t fewest) {
  if (count.writers.size() < 2 || count.rises()) return false;
  for (std::size_t i = 0; i < count.writers.size(); ++i) {
    const auto found = count.writers.find(std::to_string(i));
    if (found == count.writers.end() || found->second < fewest) return false;
  }
  return true;
}

// Tasks, none of which is there just once: no list, even where other lines are more.
bool looks_like_tasks(const Count& count) { return count.lines >= 20 && all_there(count, 3); }

bool accept(Grammar& grammar, const Ballot& ballot) {
  const auto share = [&](std::size_t lines, std::size_t percent) {
    return lines >= 2 && lines * 100 >= ballot.lines * percent;
  };
  if (!grammar.journal && share(ballot.journal.lines, 80)) {
    grammar.pids = ballot.journal.writers.size() > 1 && ballot.journal.repeats();
    return grammar.journal = true;
  }
  if (!grammar.time && share(ballot.time, 60)) return grammar.time = true;
  const Count& task = ballot.task;
  // The largest task has no blank before it: numbers that all have some, each once, are a list.
  const bool listed = !ballot.full_tasks && task.writers.size() * 2 > task.lines;
  if (!grammar.task && ((share(task.lines, 50) && task.repeats() && task.dense() && !listed) ||
                        (share(task.lines, 10) && looks_like_tasks(task)))) {
    return grammar.task = true;
  }
  if (!grammar.tee && share(ballot.tee.lines, 30)) return grammar.tee = true;
  if (!grammar.number && share(ballot.number.lines, 50) && ballot.number.repeats() &&
      ballot.number.dense() &&
      (ballot.number.writers.size() > 1 || share(ballot.number.lines, 90))) {
    return grammar.number = true;
  }
  const auto named = [&](const Count& count, std::size_t percent) {
    if (!share(count.lines, percent) || count.writers.size() < 2 || !count.repeats()) return false;
    std::set<std::string, std::less<>> names;
    for (const auto& [name, lines] : count.writers) {
      if (lines >= 2 || count.lines <= 8) names.insert(without_digits(name));
    }
    // Words that each stand once are the keys of a table, unless they differ in numbers alone.
    if (names.empty() || (count.writers.size() == count.lines && names.size() > 1)) return false;
    grammar.names.insert(names.begin(), names.end());
    return true;
  };
  if (!grammar.node && named(ballot.node, 80)) return grammar.node = true;
  if (!grammar.service && named(ballot.service, 60)) return grammar.service = true;
  if (grammar.shape.empty() && !grammar.levels) ballot.frames.settle(grammar);
  return false;
}

// Which number of the shape is a rank: the only one by which lines are of tasks, in turns.
std::size_t rank_in_shape(Grammar grammar, std::string_view sample) {
  std::size_t found = std::string::npos;
  for (const std::size_t at : counters_of(grammar.shape)) {
    Count count;
    grammar.shape_rank = at;
    each_line(sample, [&](std::string_view line) {
      if (const Prefix prefix = grammar.parse(line); prefix.rank >= 0) count.add(prefix.rank);
    });
    const bool named = names_task(std::string_view(grammar.shape).substr(0, at)) && count.falls &&
                       count.lines >= 2 * count.writers.size() && all_there(count, 1);
    const bool in_turns = looks_like_tasks(count) && count.falls >= count.writers.size() / 2;
    if (!named && !in_turns) continue;
    if (found != std::string::npos) return std::string::npos;
    found = at;
  }
  return found;
}

}  // namespace

Grammar vote(std::string_view sample) {
  Grammar grammar;
  TagBlanks tag;
  for (int round = 0; round < 5; ++round) {
    Ballot ballot;
    each_line(sample, [&](std::string_view line) {
      ++ballot.lines;
      ballot.count(line.substr(grammar.parse(line).size));
      if (round == 0) tag.count(line.substr(grammar.time ? time_at(line) : 0));
    });
    if (round == 0) grammar.blank_tags = tag.tags && tag.tags == tag.blanks;
    if (!accept(grammar, ballot)) break;
  }
  grammar.shape_rank = rank_in_shape(grammar, sample);
  return grammar;
}

}  // namespace pm::ranklogs
