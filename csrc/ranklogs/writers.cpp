#include "ranklogs/writers.h"

#include <algorithm>

namespace pm::ranklogs {
namespace {

constexpr std::size_t kMostLabels = 200000;
// Of a long line both ends are held: an error that quotes others has the reason last.
constexpr std::size_t kLongestWords = 560, kEndOfLong = 160;
constexpr std::string_view kLeftOut = " \u2026 ";

// "    at Store.open (Store.java:7)", of Java, JavaScript and .NET; "\tfrom train.rb:7", of Ruby.
bool is_frame(std::string_view text) noexcept {
  const std::size_t at = text.find_first_not_of(" \t");
  if (at == 0 || at == std::string_view::npos) return false;
  text.remove_prefix(at);
  return text.starts_with("at ") || text.starts_with("from ");
}

}  // namespace

Held& Writers::hold(Writer& writer, std::string_view text, std::uint64_t line) {
  writer.frames = is_frame(text) ? writer.frames + 1 : 0;
  if (writer.frames <= kFrames) ++writer.next_word;
  Held& held = writer.word(writer.next_word - 1);
  if (texts_.is_crowded()) {
    texts_.pack([this](const auto& use) {
      for (const auto& one : all_) {
        for (Held& word : one->words) use(word);
      }
    });
  }
  if (text.size() > kLongestWords) {
    shortened_.assign(text, 0, kLongestWords - kEndOfLong).append(kLeftOut);
    text = shortened_.append(text, text.size() - kEndOfLong);
  }
  texts_.put(held, text);
  held.line = line;
  held.plain = held.looked_at = false;
  held.again = {};
  return held;
}

std::vector<std::string> Writers::plain_above(const Writer& writer) const {
  std::vector<std::string> above;
  const std::size_t held = writer.words.size();
  const std::size_t oldest = writer.next_word - std::min(writer.next_word, held);
  for (std::size_t k = writer.next_word; k-- > oldest && above.size() < kLastWords;) {
    if (writer.word(k).plain) above.emplace_back(texts_.of(writer.word(k)));
  }
  std::reverse(above.begin(), above.end());
  return above;
}

std::uint32_t Writers::of(const Prefix& prefix, Log& log) {
  if (!prefix.any()) return 0;
  key_.clear();
  const auto number = [&](char name, std::int64_t value) {
    if (value < 0) return;
    key_ += name;
    key_.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  const auto text = [&](char name, std::string_view value) {
    if (value.empty()) return;
    key_ += name;
    key_ += value;
    key_ += '\0';
  };
  number('t', prefix.task);
  number('r', prefix.rank);
  number('l', prefix.local);
  number('p', prefix.pid);
  text('h', prefix.host);
  text('k', prefix.pod);
  text('w', prefix.worker);
  text('s', prefix.section);
  if (key_ == last_key_) return last_index_;
  auto found = known_.find(key_);
  if (found == known_.end()) {
    if (all_.size() >= kMostLabels) {
      ++log.nameless;
      return 0;
    }
    found = known_.emplace(key_, static_cast<std::uint32_t>(all_.size())).first;
    auto writer = std::make_unique<Writer>();
    writer->label.at_marks.resize(log.marks.size());
    writer->index = found->second;
    writer->label.host = prefix.host;
    writer->label.pod = prefix.pod;
    writer->label.worker = prefix.worker;
    writer->label.section = prefix.section;
    writer->label.local = prefix.local;
    writer->label.rank = prefix.rank;
    writer->label.task = prefix.task;
    writer->label.pid = prefix.pid;
    all_.push_back(std::move(writer));
  }
  last_key_ = key_;
  last_index_ = found->second;
  return last_index_;
}

void Writers::mark() {
  for (const auto& writer : all_) writer->label.at_marks.push_back(writer->label.lines);
}

}  // namespace pm::ranklogs
