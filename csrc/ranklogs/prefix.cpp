#include "ranklogs/prefix.h"

#include "ranklogs/forms.h"
#include "ranklogs/loggers.h"

namespace pm::ranklogs {
namespace {

constexpr int kMostStacked = 8;

// Whether a text may begin with a prefix of any form. One that begins with a letter is a name with
// a colon or the bar of a service behind it, or a day of the week.
bool may_begin_prefix(std::string_view text) noexcept {
  if (text.empty() || !is_letter(text[0])) return !text.empty();
  std::size_t at = 1;
  while (at < text.size() && is_name(text[at])) ++at;
  if (at == 3 || at == text.size() || text[at] == ':') return true;
  if (text[at] != ' ') return false;
  while (at < text.size() && text[at] == ' ') ++at;
  return at < text.size() && text[at] == '|';
}

}  // namespace

Prefix Grammar::parse(std::string_view line) const {
  Prefix found;
  std::string_view text = line;
  if (journal) {
    const std::size_t size = journal_at(text, found);
    text.remove_prefix(size);
    if (!pids) found.pid = -1;
    if (!pids) found.worker = {};
  }
  if (time) text.remove_prefix(time_at(text));
  take_prefixes(text, found);
  Prefix shaped = found;
  const std::size_t size = shape.empty() ? 0 : shape_at(text, shape, shape_rank, shaped);
  const bool whole = levels ? levelled_head(text.substr(size), behind_level, shaped).size : size;
  if (whole) {
    found = shaped;
    text.remove_prefix(size);
    if (!levels) take_prefixes(text, found);
  }
  found.size = found.any() || time || journal || size ? line.size() - text.size() : 0;
  return found;
}

Prefix Grammar::parse_behind(const Prefix& known, std::string_view line) const {
  Prefix found = known;
  std::string_view text = line.substr(known.size);
  if (!may_begin_prefix(text)) return found;
  take_prefixes(text, found);
  found.size = line.size() - text.size();
  return found;
}

RecordHead Grammar::record_head(std::string_view text) const noexcept {
  const RecordHead known = vllm_head(text);
  if (known.size || !levels) return known;
  Prefix none;
  return levelled_head(text, behind_level, none);
}

void Grammar::take_prefixes(std::string_view& text, Prefix& found) const {
  for (int i = 0; i < kMostStacked && !text.empty(); ++i) {
    const char first = text[0];
    std::size_t size = 0;
    if (first == '[') {
      size = certain_bracket(text, found);
      if (size && !found.pod.empty()) size += time_at(text.substr(size));  // kubectl --timestamps
      if (blank_tags && text.substr(0, size).ends_with(">:") &&
          text.substr(size).starts_with(' ')) {
        ++size;
      }
      if (!size && (tee || number)) size = voted_bracket(text, tee, number, found);
    } else if (first == '(') {
      if (found.pid < 0) size = ray_at(text, found);
    } else if (first == ' ' || is_digit(first)) {
      if (task && found.task < 0) size = task_at(text, found.task);
    }
    if (!size && (node || service) && is_name(first) && found.host.empty()) {
      std::size_t length = 0;
      std::string_view name = node ? node_at(text, length) : std::string_view();
      if (name.empty() && service) name = service_at(text, length);
      if (!name.empty() && names.contains(without_digits(name))) {
        found.host = name;
        size = length;
      }
    }
    if (!size && (first == '[' || is_digit(first)) && found.rank < 0) {
      size = ranked_record_at(text, found);
      found.record = size != 0;
    }
    if (!size) size = before_certain(text, found);
    if (!size) break;
    text.remove_prefix(size);
  }
}

InnerTag inner_tag(std::string_view text) noexcept {
  for (std::size_t end = text.find("]<std"); end != std::string_view::npos;
       end = text.find("]<std", end + 1)) {
    const std::size_t open = text.rfind('[', end);
    if (open == std::string_view::npos) continue;
    Prefix found;
    const std::size_t size = certain_bracket(text.substr(open), found);
    if (!size || found.rank < 0) continue;
    constexpr std::size_t kTime = 24;
    const bool timed = open >= kTime && ctime_at(text.substr(open - kTime));
    const std::size_t at = timed ? open - kTime : open;
    return {at, open + size - at, found.rank};
  }
  return {};
}

}  // namespace pm::ranklogs
