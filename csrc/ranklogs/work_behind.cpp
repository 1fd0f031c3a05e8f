#include "ranklogs/work_behind.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace pm::ranklogs {
namespace {

// Lines of work that are looked for behind an error, and lines among which they are.
constexpr unsigned kWorkBehind = 12;
constexpr unsigned kLookedAt = 4096;
constexpr std::size_t kMostWork = 96;
constexpr std::size_t kMostSharedWork = 1200;  // of lines without a prefix

// Every second one: the rest still stands behind each part of the log.
void thin(std::vector<PlainLine>& work) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < work.size(); i += 2) {
    if (i != kept) work[kept] = std::move(work[i]);
    ++kept;
  }
  work.resize(kept);
}

}  // namespace

void WorkBehind::error(Writer& writer, std::uint64_t line) {
  const std::size_t held = writer.words.size();
  std::size_t at = writer.next_word - std::min(writer.next_word, held);
  for (at = std::max(at, writer.learned_words); at < writer.next_word; ++at) {
    look_back(writer, writer.word(at));
  }
  writer.learned_words = writer.next_word;
  writer.work_wanted = kWorkBehind;
  writer.looked_at = 0;
  writer.error_line = line;
}

void WorkBehind::look_back(Writer& writer, Held& word) {
  if (!word.plain || word.looked_at) return;
  word.again = forms_.learn(writer.index, texts_.of(word), word.line);
  word.looked_at = true;
}

void WorkBehind::look_at(Writer& writer, Held& word) {
  const std::string_view text = texts_.of(word);
  const Again again =
      writer.open ? forms_.find(writer.index, text) : forms_.learn(writer.index, text, word.line);
  word.again = again;
  word.looked_at = true;
  if (writer.work_wanted && ++writer.looked_at > kLookedAt) writer.work_wanted = 0;
  const bool wanted =
      writer.work_wanted && again.times >= options_.work_values && again.since < writer.error_line;
  if (!wanted && again.times != options_.work_alike) return;
  if (wanted) --writer.work_wanted;
  std::vector<PlainLine>& work = writer.label.work;
  work.push_back({word.line, std::string(text), again});
  if (work.size() > (writer.index == 0 ? kMostSharedWork : kMostWork)) thin(work);
}

}  // namespace pm::ranklogs
