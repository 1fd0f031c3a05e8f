#include "ranklogs/loggers.h"

#include <algorithm>

#include "ranklogs/forms.h"
#include "ranklogs/words.h"

namespace pm::ranklogs {
namespace {

constexpr std::size_t kLongestLevel = 8;
constexpr std::string_view kDay = "dddd-dd-dd dd:dd:dd";

// "TP2", "DP0 TP2 EP2": SGLang's tensor-parallel rank is that of the job, but for pipelines, which
// count anew at each stage. -1: nothing that tells a rank.
std::int64_t parallel_rank(std::string_view names, char between) noexcept {
  std::int64_t rank = -1;
  while (!names.empty()) {
    const std::size_t end = std::min(names.find(between), names.size());
    const std::string_view name = names.substr(0, end);
    names.remove_prefix(std::min(end + 1, names.size()));
    if (name.size() < 3 || name[1] != 'P') return -1;
    const Number number = rank_at(name.substr(2));
    if (!number.size || number.size + 2 != name.size()) return -1;
    if (name[0] == 'P' && number.value > 0) return -1;
    if (name[0] == 'T') rank = number.value;
  }
  return rank;
}

// "[2025-02-26 12:01:56 TP2] " of SGLang.
std::size_t sglang_at(std::string_view text, Prefix& to) noexcept {
  if (!text.starts_with('[') || !has_form(text.substr(1), kDay)) return 0;
  const std::size_t from = 1 + kDay.size();
  const std::size_t end = text.substr(0, from + 40).find("] ", from);
  if (end == std::string_view::npos || text[from] != ' ') return 0;
  const std::int64_t rank = parallel_rank(text.substr(from + 1, end - from - 1), ' ');
  if (rank < 0) return 0;
  to.rank = rank;
  return end + 2;
}

// "2024-05-01 10:00:00,123: rank0[201][MainThread]: INFO: " of Composer, without the level.
std::size_t composer_at(std::string_view text, Prefix& to) noexcept {
  constexpr std::string_view kForm = "dddd-dd-dd dd:dd:dd,ddd: rank";
  if (!has_form(text, kForm)) return 0;
  const Number rank = rank_at(text.substr(kForm.size()));
  const std::size_t at = kForm.size() + rank.size;
  if (!rank.size || !text.substr(at).starts_with('[')) return 0;
  const Number pid = number_at(text.substr(at + 1));
  const std::size_t end = text.substr(0, at + 80).find("]: ", at);
  if (!pid.size || end == std::string_view::npos) return 0;
  to.rank = rank.value;
  return end + 3;
}

// The size of the level that a text begins with; 0: with none.
std::size_t level_at(std::string_view text) noexcept {
  if (text.empty() || std::string_view("CDEFIW").find(text[0]) == text.npos) return 0;
  const Level level = level_in(text.substr(0, kLongestLevel + 1));
  return level.at ? 0 : level.size;
}

bool is_error(std::string_view level) noexcept {
  return std::string_view("ECF").find(level[0]) != level.npos;
}

}  // namespace

std::size_t ranked_record_at(std::string_view text, Prefix& to) noexcept {
  if (text.size() < kDay.size() + 4) return 0;
  return text[0] == '[' ? sglang_at(text, to) : composer_at(text, to);
}

Level level_in(std::string_view text) noexcept {
  Level first;
  for (const std::string_view level : kLevels) {
    const std::size_t at = text.find(level), end = at + level.size();
    if (at == std::string_view::npos || (first.size && at >= first.at)) continue;
    if (at && is_letter(text[at - 1])) continue;
    if (end < text.size() && is_letter(text[end])) continue;
    first = {at, level.size()};
  }
  return first;
}

RecordHead vllm_head(std::string_view text) noexcept {
  constexpr std::size_t kLongestPlace = 120;
  constexpr std::string_view kTime = " dd-dd dd:dd:dd ";
  const std::size_t level = level_at(text);
  if (!level || !has_form(text.substr(level), kTime)) return {};
  const std::size_t place = level + kTime.size();
  const std::size_t end = text.substr(0, place + kLongestPlace).find("] ", place);
  if (end == std::string_view::npos || !is_digit(text[end - 1])) return {};
  if (text.substr(place, end - place).find(".py:") == std::string_view::npos) return {};
  const bool error = is_error(text);
  return {end + 2, error, !error};
}

RecordHead levelled_head(std::string_view text, std::string_view shape, Prefix& to) noexcept {
  const std::size_t level = level_at(text);
  if (!level) return {};
  std::string_view rest = text.substr(level);
  if (shape.find_first_not_of(' ') != std::string_view::npos) {  // levels are filled up to a width
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    shape.remove_prefix(shape.find_first_not_of(' '));
  }
  const std::size_t size = shape_at(rest, shape, std::string_view::npos, to);
  if (!size && !rest.empty()) return {};
  return {text.size() - rest.size() + size, is_error(text)};
}

std::int64_t rank_of_worker(std::string_view name) noexcept {
  if (const std::size_t at = name.find(" rank="); at != std::string_view::npos) {
    const Number number = rank_at(name.substr(at + 6));
    return number.size && at + 6 + number.size == name.size() ? number.value : -1;
  }
  constexpr std::string_view kWorker = "Worker_";
  return name.starts_with(kWorker) && name.find("DP") == std::string_view::npos
             ? parallel_rank(name.substr(kWorker.size()), '_')
             : -1;
}

}  // namespace pm::ranklogs
