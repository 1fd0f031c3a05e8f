#include "ranklogs/sections.h"

#include "ranklogs/forms.h"

namespace pm::ranklogs {
namespace {

constexpr std::size_t kLongestPath = 4096;

// "----------Begin global rank 2 STDERR----------" of Composer's launcher
// (composer/cli/launcher.py)
constexpr std::string_view kBegin = "----------Begin global rank ";
constexpr std::string_view kEnd = "----------End global rank ";

// "==> logs/rank_2.log <==" of head and tail (coreutils)
std::string_view shown_file(std::string_view text) noexcept {
  constexpr std::string_view kOpen = "==> ", kClose = " <==";
  if (!text.starts_with(kOpen) || !text.ends_with(kClose)) return {};
  if (text.size() <= kOpen.size() + kClose.size() || text.size() > kLongestPath) return {};
  return text.substr(kOpen.size(), text.size() - kOpen.size() - kClose.size());
}

}  // namespace

bool Sections::take(std::string_view text) {
  if (text.starts_with(kBegin)) {
    const Number rank = rank_at(text.substr(kBegin.size()));
    if (!rank.size) return false;
    here_ = {};
    here_.rank = rank.value;
    here_.stream = text.find(" STDOUT-") != std::string_view::npos ? 'o' : 'e';
    return true;
  }
  if (text.starts_with(kEnd)) {
    here_ = {};
    return true;
  }
  const std::string_view file = shown_file(text);
  if (file.empty()) return false;
  here_ = {};
  name_ = file;
  here_.section = name_;
  return true;
}

}  // namespace pm::ranklogs
