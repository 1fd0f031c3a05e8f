#include "ranklogs/forms.h"

#include <algorithm>

#include "ranklogs/loggers.h"
#include "ranklogs/words.h"

namespace pm::ranklogs {
namespace {

constexpr std::size_t kLongestName = 80;
// "[node1:4711] " of Open MPI's crash handler has a process in it, no local rank.
constexpr std::int64_t kMostLocal = 1024;

bool is_file_name(std::string_view name) noexcept {
  for (const std::string_view end :
       {".py", ".cpp", ".cc", ".cu", ".h", ".hpp", ".c", ".rs", ".go", ".sh"}) {
    if (name.ends_with(end)) return true;
  }
  return false;
}

// "05/27/2026-21:12:", which its seconds follow.
bool is_time(std::string_view name) noexcept {
  return std::count(name.begin(), name.end(), ':') > 1 &&
         std::none_of(name.begin(), name.end(), is_letter);
}

}  // namespace

Number rank_at(std::string_view text) noexcept {
  const Number number = number_at(text);
  return number.value <= kMostRank ? number : Number{};
}

Number number_at(std::string_view text) noexcept {
  Number found;
  while (found.size < text.size() && is_digit(text[found.size])) {
    if (found.size == 9) return {};
    found.value = found.value * 10 + (text[found.size++] - '0');
  }
  return found;
}

bool has_form(std::string_view text, std::string_view form) noexcept {
  if (text.size() < form.size()) return false;
  for (std::size_t i = 0; i < form.size(); ++i) {
    const char c = text[i];
    const bool fits = form[i] == 'A'   ? c >= 'A' && c <= 'Z'
                      : form[i] == 'a' ? is_letter(c)
                      : form[i] == 'd' ? is_digit(c)
                      : form[i] == '.' ? is_digit(c) || c == ' '
                                       : c == form[i];
    if (!fits) return false;
  }
  return true;
}

namespace {

// "[...]" at the start of `text`; empty where there is none that could be a prefix.
std::string_view bracketed(std::string_view text, std::size_t most) noexcept {
  if (text.size() < 3 || text[0] != '[') return {};
  const std::size_t end = text.substr(0, most + 2).find(']');
  if (end == std::string_view::npos || end < 2) return {};
  return text.substr(1, end - 1);
}

// Role and local rank of "[host1:2]", "[default0]", "[5:0]".
bool split_role(std::string_view inner, Prefix& to) noexcept {
  std::size_t digits = inner.size();
  while (digits > 0 && is_digit(inner[digits - 1]) && inner.size() - digits < 6) --digits;
  if (digits == inner.size() || digits == 0) return false;
  std::string_view role = inner.substr(0, digits);
  for (const char c : role) {
    if (!is_name(c) && c != ':' && c != '@' && c != '/') return false;
  }
  if (is_time(role)) return false;
  if (role.back() != ':' && !is_letter(role[0])) return false;
  const bool colon = role.back() == ':';
  while (!role.empty() && (role.back() == ':' || role.back() == '-' || role.back() == '_')) {
    if (role.back() != ':' && colon) break;
    role.remove_suffix(1);
  }
  if (is_file_name(role) || role.empty()) return false;
  const std::int64_t local = number_at(inner.substr(digits)).value;
  if (local >= kMostLocal) return false;
  to.local = local;
  to.host = role;
  return true;
}

// Of "<stdout>:", "<stderr>:", "<stddiag>:".
char stream_of(std::string_view tag) noexcept {
  return tag.starts_with("<stdout") ? 'o' : tag.starts_with("<stderr") ? 'e' : '\0';
}

}  // namespace

// "[rank2]:", "[host1:2]:", "[1,0]<stderr>:", "[pod/name/container] ".
std::size_t certain_bracket(std::string_view text, Prefix& to) noexcept {
  const std::string_view inner = bracketed(text, kLongestName * 2);
  if (inner.empty()) return 0;
  const std::string_view rest = text.substr(inner.size() + 2);
  const std::size_t size = inner.size() + 2;
  if (inner.starts_with("rank") && rest.starts_with(':')) {
    const Number number = rank_at(inner.substr(4));
    if (number.size && number.size == inner.size() - 4) {
      to.rank = number.value;
      return size + 1 + (rest.starts_with(": ") ? 1 : 0);
    }
  }
  if (inner.starts_with("pod/") && rest.starts_with(' ')) {
    to.pod = inner;
    return size + 1;
  }
  if (const std::size_t at = inner.find("mpirank:");  // SageMaker: "[1,mpirank:3,algo-2]<stderr>:"
      at != std::string_view::npos && rest.starts_with("<std")) {
    const Number number = rank_at(inner.substr(at + 8));
    const std::size_t end = rest.substr(0, 10).find(">:");
    if (number.size && end != std::string_view::npos) {
      const std::string_view behind = inner.substr(at + 8 + number.size);
      if (behind.starts_with(',')) to.host = behind.substr(1);
      to.rank = number.value;
      to.stream = stream_of(rest);
      return size + end + 2;
    }
  }
  if (rest.starts_with("<std")) {
    // Open MPI's job and rank, "[1,0]"; horovodrun's rank alone.
    const std::size_t from = inner.rfind(',') + 1;
    const Number number = rank_at(inner.substr(from));
    const std::size_t end = rest.substr(0, 10).find(">:");
    if (number.size && from + number.size == inner.size() && end != std::string_view::npos) {
      to.rank = number.value;
      to.stream = stream_of(rest);
      return size + end + 2;
    }
  }
  if (inner.size() <= kLongestName && rest.starts_with(':') && split_role(inner, to)) {
    return size + 1;
  }
  return 0;
}

// "(name pid=4711, ip=10.0.0.2) " and "(name pid=4711) ".
std::size_t ray_at(std::string_view text, Prefix& to) noexcept {
  if (!text.starts_with('(')) return 0;
  const std::size_t end = text.substr(0, 3 * kLongestName).find(')');
  if (end == std::string_view::npos) return 0;
  const std::string_view inner = text.substr(1, end - 1);
  const std::size_t pid = inner.find("pid=");
  if (pid == std::string_view::npos || (pid > 0 && inner[pid - 1] != ' ')) return 0;
  const Number number = number_at(inner.substr(pid + 4));
  if (!number.size) return 0;
  std::string_view worker = inner.substr(0, pid);
  while (worker.ends_with(' ') || worker.ends_with(',')) worker.remove_suffix(1);
  const std::string_view after = inner.substr(pid + 4 + number.size);
  if (after.starts_with(", ip=")) {
    to.host = after.substr(5);
  } else if (!after.empty()) {
    return 0;
  }
  // The blank of an empty line goes where a log is copied.
  if (text.size() > end + 1 && text[end + 1] != ' ') return 0;
  to.worker = worker.empty() ? std::string_view("worker") : worker;
  if (const std::int64_t rank = rank_of_worker(worker); rank >= 0) to.rank = rank;
  to.pid = number.value;
  return std::min(end + 2, text.size());
}

// "  3: " of srun --label, which pads to the width of the largest task; an empty line is "3: " too.
std::size_t task_at(std::string_view text, std::int64_t& task) noexcept {
  std::size_t at = 0;
  while (at < text.size() && at < 8 && text[at] == ' ') ++at;
  const Number number = rank_at(text.substr(at));
  if (!number.size || number.size > 7) return 0;
  at += number.size;
  if (at >= text.size() || text[at] != ':') return 0;
  ++at;
  if (at < text.size() && text[at] != ' ') return 0;
  task = number.value;
  return std::min(at + 1, text.size());
}

namespace {

std::string_view name_at(std::string_view text) noexcept {
  std::size_t size = 0;
  while (size < text.size() && size < kLongestName && is_name(text[size])) ++size;
  return text.substr(0, size);
}

}  // namespace

// "node7: "; the name, or nothing.
std::string_view node_at(std::string_view text, std::size_t& size) noexcept {
  const std::string_view name = name_at(text);
  const std::string_view rest = text.substr(name.size());
  if (name.empty() || !rest.starts_with(':') || (rest.size() > 1 && rest[1] != ' ')) return {};
  size = name.size() + std::min<std::size_t>(2, rest.size());
  return name;
}

// "trainer-0  | ", "node2|"; the name, or nothing. Without a blank it is one that ends in a number.
// A number alone counts the rows of a table.
std::string_view service_at(std::string_view text, std::size_t& size) noexcept {
  const std::string_view name = name_at(text);
  std::size_t at = name.size();
  while (at < text.size() && text[at] == ' ') ++at;
  const bool numbered = !name.empty() && is_letter(name.front()) && is_digit(name.back());
  const bool fits = at > name.size() ? std::ranges::any_of(name, is_letter) : numbered;
  if (!fits || at >= text.size() || text[at] != '|') return {};
  size = at + 1 + (text.substr(at + 1).starts_with(' ') ? 1 : 0);
  return name;
}

std::string without_digits(std::string_view name) {
  std::string result;
  for (const char c : name) {
    if (!is_digit(c)) result += c;
  }
  return result;
}

namespace {

// The word that stands before a number: "worker" of "train-worker-3", "rank" of "[rank:  3".
std::string_view word_before(std::string_view text) noexcept {
  return text.substr(0, text.find_last_not_of(" :=_#-") + 1);
}

// Whether what stands before a number says that it is a rank's: "[rank 3]", "RANK=3", "rank:  3".
bool names_rank(std::string_view before) noexcept {
  before = word_before(before);
  return before.ends_with("rank") || before.ends_with("Rank") || before.ends_with("RANK");
}

}  // namespace

bool names_task(std::string_view before) noexcept {
  before = word_before(before);
  return std::ranges::any_of(kTasks, [&](auto word) { return before.ends_with(word); });
}

std::string masked(std::string_view prefix) {
  std::string result;
  for (std::size_t at = 0; at < prefix.size();) {
    std::size_t digits = at;
    while (digits < prefix.size() && prefix[digits] == ' ') ++digits;
    if (digits < prefix.size() && is_digit(prefix[digits])) {
      while (digits < prefix.size() && is_digit(prefix[digits])) ++digits;
      result += '0';
      at = digits;
    } else {
      result += prefix[at++];
    }
  }
  return result;
}

std::vector<std::size_t> counters_of(std::string_view shape) {
  constexpr std::string_view kOfTimes = ":-.,/";
  const auto joins = [&](std::size_t sign, std::size_t other) {
    return other < shape.size() && shape[other] == '0' &&
           kOfTimes.find(shape[sign]) != std::string_view::npos;
  };
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != '0' || (i > 1 && joins(i - 1, i - 2)) || joins(i + 1, i + 2)) continue;
    const std::string_view before = shape.substr(0, i);
    if (std::ranges::none_of(kNoRanks, [&](auto word) { return before.ends_with(word); }))
      found.push_back(i);
  }
  return found;
}

std::size_t shape_at(std::string_view text, std::string_view shape, std::size_t rank_at_byte,
                     Prefix& to) noexcept {
  std::size_t at = 0;
  std::int64_t rank = -1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == '0') {
      while (at < text.size() && text[at] == ' ') ++at;
      const std::size_t from = at;
      while (at < text.size() && is_digit(text[at])) ++at;
      if (at == from) return 0;
      const Number number = rank_at(text.substr(from, at - from));
      const bool is_rank = i == rank_at_byte || names_rank(shape.substr(0, i));
      if (rank < 0 && number.size && is_rank) rank = number.value;
    } else if (at < text.size() && text[at] == shape[i]) {
      ++at;
    } else if (at == text.size() && shape.substr(i).find_first_not_of(' ') == shape.npos) {
      break;  // an empty line, without the blanks at its end
    } else {
      return 0;
    }
  }
  if (rank >= 0 && to.rank < 0) to.rank = rank;
  return at;
}

// Words that stand before a colon in the output of any program.
bool is_log_word(std::string_view name) noexcept {
  if (std::all_of(name.begin(), name.end(), [](char c) { return is_digit(c); })) return true;
  const auto is_it = [&](std::string_view word) { return name == word; };
  const auto ends_it = [&](std::string_view end) { return name.ends_with(end); };
  return std::ranges::any_of(kLevels, is_it) || std::ranges::any_of(kNoHosts, is_it) ||
         std::ranges::any_of(kNoHostEnds, ends_it) || name.starts_with("slurmstepd-") ||
         is_file_name(name);
}

// "[host:0] " and "[3] " of a log whose grammar has them.
std::size_t voted_bracket(std::string_view text, bool tee, bool number, Prefix& to) noexcept {
  const std::string_view inner = bracketed(text, kLongestName);
  if (inner.empty() || !text.substr(inner.size() + 2).starts_with(' ')) return 0;
  const Number digits = rank_at(inner);
  if (number && digits.size == inner.size()) {
    to.task = digits.value;
    return inner.size() + 3;
  }
  Prefix found;
  if (tee && inner.find(':') != std::string_view::npos && split_role(inner, found)) {
    to.host = found.host;
    to.local = found.local;
    return inner.size() + 3;
  }
  return 0;
}

// A time, or the name of a node or service, counts without votes where a certain form follows:
// "2026-… [rank0]: ", "node7: [rank0]: ".
std::size_t before_certain(std::string_view text, Prefix& to) noexcept {
  const auto followed = [&](std::size_t size) {
    Prefix behind;
    return size && text.size() > size && text[size] == '[' &&
           certain_bracket(text.substr(size), behind);
  };
  if (const std::size_t size = ctime_at(text); followed(size)) return size;
  if (text[0] == '[' || is_digit(text[0])) {
    const std::size_t size = time_at(text);
    if (followed(size)) return size;
  }
  if (!is_letter(text[0]) || !to.host.empty()) return 0;
  std::size_t size = 0;
  std::string_view name = node_at(text, size);
  if (name.empty()) name = service_at(text, size);
  if (name.empty() || is_log_word(name) || !followed(size)) return 0;
  to.host = name;
  return size;
}

// "Nov 21 20:28:01 gpu-a01 train[4711]: " of journalctl and syslog daemons, also with an ISO time.
std::size_t journal_at(std::string_view text, Prefix& to) noexcept {
  constexpr std::string_view kForm = "Aaa .d dd:dd:dd ";
  std::size_t at = 0;
  if (has_form(text, kForm)) {
    at = kForm.size();
  } else if (!text.empty() && is_digit(text[0])) {
    at = time_at(text);
  }
  if (!at || at >= text.size() || !is_letter(text[at])) return 0;
  const std::string_view host = name_at(text.substr(at));
  at += host.size();
  if (host.empty() || !text.substr(at).starts_with(' ')) return 0;
  const std::string_view program = name_at(text.substr(++at));
  at += program.size();
  if (program.empty() || !text.substr(at).starts_with('[')) return 0;
  const Number pid = number_at(text.substr(++at));
  at += pid.size;
  if (!pid.size || !text.substr(at).starts_with("]:")) return 0;
  to.host = host;
  to.worker = program;
  to.pid = pid.value;
  return std::min(at + 3, text.size());
}

}  // namespace pm::ranklogs
