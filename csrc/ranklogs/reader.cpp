#include "ranklogs/reader.h"

#include <algorithm>
#include <array>
#include <span>

#include "ranklogs/clean.h"
#include "ranklogs/links.h"
#include "ranklogs/prefix_cache.h"
#include "ranklogs/region_store.h"
#include "ranklogs/sections.h"
#include "ranklogs/spool.h"
#include "ranklogs/work_behind.h"
#include "ranklogs/writers.h"

namespace pm::ranklogs {
namespace {

constexpr std::size_t kLongestRow = 4000;
constexpr std::size_t kMostRows = 3000;
constexpr std::size_t kMostRegionBytes = std::size_t{512} << 10;
// Lines that say nothing special and may still belong to what stands before them: the message of an
// exception may have several.
constexpr unsigned kPatience = 6;

// Whether a text stands between the sides of a box, in which rich draws a traceback.
bool is_in_box(std::string_view text) noexcept {
  return text.starts_with("\xe2\x94\x82") || (text.starts_with('|') && text.ends_with('|'));
}

constexpr Kinds kOpens =
    bit(Kind::kTraceback) | bit(Kind::kFatal) | bit(Kind::kFrames) | bit(Kind::kLauncher);
// A job is seldom started so often; a log with more of such lines is none of restarts.
constexpr std::size_t kMostMarks = 64;
constexpr std::size_t kMostCounts = 4'000'000;
// What work looks like is learned from the first lines of a writer, from some of the others, and
// from those right above an error.
constexpr std::uint64_t kLearned = 128;
constexpr Kinds kErrors = bit(Kind::kTraceback) | bit(Kind::kFatal) | bit(Kind::kError);

// One line in sixteen, in no step with what is printed again and again.
bool is_sample(std::uint64_t line) noexcept {
  return (line * std::uint64_t{0x9e3779b97f4a7c15}) >> 60 == 0;
}

class Reader {
 public:
  explicit Reader(const Options& options)
      : options_(options),
        literals_(options.keep),
        behind_(options, writers_.texts()),
        store_(options.kept_bytes),
        spool_(options.sink, writers_) {}

  void vote_on(std::string_view sample) { log_.grammar = vote(sample); }

  void take(std::span<const Line> lines);

  Log finish();

 private:
  void expect(std::span<const Line> lines);
  void copies(const Line& of);
  void line(std::string_view raw, bool clean);
  std::uint32_t writer_of(const Prefix& prefix) { return writers_.of(prefix, log_); }
  std::uint32_t writer_above(std::string_view text);
  void tagged(Prefix prefix, std::string_view text);
  std::string_view without_repeats(std::string_view text, std::string_view head);
  void rest_of_line(std::uint32_t index, std::string_view text);
  void piece(std::uint32_t index, std::string_view text);
  void close(Writer& writer);
  void append(Writer& writer, std::string_view text, Kinds kinds);
  void mark(std::uint32_t index, std::string_view text);

  const Options& options_;
  const KeepLiterals literals_;
  PrefixCache prefixes_;
  const CachedPrefix* likely_ = nullptr;  // of the line at hand
  std::array<const CachedPrefix*, kMostAtOnce> expected_{};
  Log log_;
  Writers writers_;
  std::string clean_, joined_, docker_;
  char stream_ = 0;        // of the line at hand
  bool controls_ = false;  // it has characters of control, as carriage returns are
  WorkBehind behind_;
  Links links_;
  Sections sections_;
  std::uint32_t record_ = 0;  // the writer whose record the lines at hand may go on with
  RegionStore store_;
  Spool spool_;
  // What the line at hand came to: its pieces, whose the last one is, and if it is nothing special.
  unsigned pieces_ = 0;
  bool plain_ = false;
  bool begins_ = false;  // a record
  std::uint32_t piece_of_ = 0;
  std::string_view piece_;
};

void Reader::take(std::span<const Line> lines) {
  expect(lines);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    likely_ = expected_[i];
    copies(lines[i]);
  }
}

// The lines of many writers lie far apart in memory. What those at hand need is asked for together,
// one step after the other: a step waits for what the one before it asked for.
void Reader::expect(std::span<const Line> lines) {
  std::array<const Writer*, kMostAtOnce> writers{};
  std::size_t count = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    expected_[i] = prefixes_.likely(lines[i].text);
    if (expected_[i] != nullptr) __builtin_prefetch(expected_[i]);
  }
  for (const CachedPrefix* const prefix : std::span(expected_).first(lines.size())) {
    if (prefix == nullptr) continue;
    __builtin_prefetch(prefix->text.data());
    writers[count] = &writers_[prefix->writer];
    __builtin_prefetch(&writers[count]->label.lines);
    __builtin_prefetch(&writers[count++]->next_word);
  }
  for (const Writer* const writer : std::span(writers).first(count)) {
    if (!writer->words.empty()) __builtin_prefetch(&writer->word(writer->next_word));
  }
}

// Of the same line again and again only the number changes, once two in a row were nothing special
// and went to one writer; what is known of a writer's last lines comes from the last of them.
void Reader::copies(const Line& of) {
  std::uint64_t times = of.times;
  unsigned alike = 0;
  for (; times > 0; --times) {
    const std::uint64_t binary = log_.binary_lines, nameless = log_.nameless;
    const std::uint32_t before = piece_of_;
    line(of.text, of.clean);
    alike = pieces_ != 1 || !plain_ ? 0 : piece_of_ == before ? alike + 1 : 1;
    if (alike < 2 || times <= kTail + 1) continue;
    const std::uint64_t passed = times - 1 - kTail;
    times -= passed;
    log_.lines += passed;
    log_.binary_lines += passed * (log_.binary_lines - binary);
    log_.nameless += passed * (log_.nameless - nameless);
    writers_[piece_of_].label.lines += passed;
    if (!options_.sink) continue;
    for (std::uint64_t k = 0; k < passed; ++k) spool_.take(piece_of_, piece_);
  }
}

void Reader::line(std::string_view raw, bool clean) {
  ++log_.lines;
  pieces_ = 0;
  if (raw.size() > kLongestLine) {
    raw = raw.substr(0, kLongestLine);
    ++log_.cut_lines;
  }
  if (raw.ends_with('\r')) raw.remove_suffix(1);
  if (log_.lines == 1) raw = without_mark(raw);
  if (raw.starts_with(kDockerHead) && out_of_docker(raw, docker_)) {
    raw = docker_;
    clean = false;
  }
  controls_ = !clean && has_controls(raw);
  if (controls_ && is_binary(raw)) ++log_.binary_lines;
  const std::string_view whole = controls_ ? without_controls(raw, clean_) : raw;
  std::string_view text = whole;
  const CachedPrefix* known = likely_;
  if (known == nullptr || !text.starts_with(known->text)) {
    known = prefixes_.likely(text);
    if (known != nullptr && !text.starts_with(known->text)) known = nullptr;
  }
  const Prefix prefix =
      known ? log_.grammar.parse_behind(known->prefix, text) : log_.grammar.parse(text);
  stream_ = prefix.stream;
  const std::string_view head = text.substr(0, prefix.size);
  text.remove_prefix(prefix.size);
  if ((head.ends_with(">:") || head.ends_with(">: ")) &&
      text.find("]<std") != std::string_view::npos) {
    tagged(prefix, text);
    return;
  }
  if (log_.grammar.number && prefix.task >= 0 && text.ends_with(head)) {
    text = without_repeats(text, head);
  }
  if (known && prefix.size == known->prefix.size) {
    record_ = 0;
    rest_of_line(known->writer, text);
    return;
  }
  const std::uint32_t writer = prefix.any() ? writer_of(prefix) : writer_above(text);
  if (writer && !log_.grammar.time && !log_.grammar.journal && log_.grammar.shape.empty()) {
    prefixes_.remember(whole, prefix, writer);
  }
  if (prefix.any()) record_ = prefix.record ? writer : 0;
  rest_of_line(writer, text);
}

// Whose a line without a prefix is: of what a logger writes, only the first line of a record says.
std::uint32_t Reader::writer_above(std::string_view text) {
  if (sections_.take(text)) {
    record_ = 0;
    return 0;
  }
  if (record_ && writers_[record_].open) return record_;
  stream_ = sections_.here().stream;
  return writer_of(sections_.here());
}

// A line in which mpirun's tags stand before each write: pieces of one rank are joined.
void Reader::tagged(Prefix prefix, std::string_view text) {
  std::string joined;
  for (;;) {
    const InnerTag tag = inner_tag(text);
    joined += text.substr(0, tag.size ? tag.at : text.size());
    if (!tag.size) break;
    if (tag.rank != prefix.rank) {
      rest_of_line(writer_of(prefix), joined);
      joined.clear();
      prefix.rank = tag.rank;
    }
    text.remove_prefix(tag.at + tag.size);
  }
  rest_of_line(writer_of(prefix), joined);
  ++pieces_;  // which is gone with `joined`
}

// Hydra too puts its "[3] " before each write; then a line ends in one, for the line's end.
std::string_view Reader::without_repeats(std::string_view text, std::string_view head) {
  joined_.clear();
  for (;;) {
    const std::size_t at = text.find(head);
    joined_ += text.substr(0, at);
    if (at == std::string_view::npos) return joined_;
    text.remove_prefix(at + head.size());
  }
}

void Reader::rest_of_line(std::uint32_t index, std::string_view text) {
  // Progress bars write over their line; an error may stand behind one, after torch's own
  // prefix of the same process: whose bar it is, nothing else may say.
  const auto without_prefix = [this, &index](std::string_view behind) {
    const Prefix inner = behind.starts_with('[') ? log_.grammar.parse(behind) : Prefix{};
    if (!inner.any()) return behind;
    if (index == 0) index = writer_of(inner);
    return behind.substr(inner.size);
  };
  for (bool more = true; more;) {
    const std::size_t end = controls_ ? text.find('\r') : std::string_view::npos;
    std::string_view over = text.substr(0, end);
    more = end != std::string_view::npos;
    if (more) text = without_prefix(text.substr(end + 1));
    while (const std::size_t drawn = bar_size(over)) {
      piece(index, over.substr(0, drawn));
      over = without_prefix(over.substr(drawn));
    }
    piece(index, over);
  }
}

void Reader::piece(std::uint32_t index, std::string_view text) {
  Writer& writer = writers_[index];
  Label& label = writer.label;
  ++label.lines;
  if (label.lines == 1) label.first_line = log_.lines;
  label.last_line = log_.lines;
  ++pieces_;
  piece_of_ = index;
  piece_ = text;
  plain_ = false;
  if (options_.sink) spool_.take(index, text);
  text = without_count(text);
  Held* word = nullptr;
  if (!text.empty()) {
    const std::size_t held = index < kMostTails ? kTail : kHeldWords;
    if (writer.words.size() < held) writer.words.resize(held);
    word = &writers_.hold(writer, text, log_.lines);
  }
  const RecordHead head = log_.grammar.record_head(text);
  begins_ = text.substr(0, head.size) != writer.head;
  if (begins_) writer.head = text.substr(0, head.size);
  text.remove_prefix(head.size);
  Kinds kinds = literals_.find(text);
  if (head.error) kinds |= bit(Kind::kError);
  if (head.survived) kinds &= ~bit(Kind::kTraceback);
  const bool plain = !kinds;
  if (kinds & kErrors) behind_.error(writer, log_.lines);
  if (kinds & bit(Kind::kLink)) {
    links_.take(text, log_.lines);
    kinds &= ~bit(Kind::kLink);
  }
  if (kinds & bit(Kind::kTrail) && !is_trail(text)) kinds &= ~bit(Kind::kTrail);
  if (kinds & bit(Kind::kMark)) {
    mark(index, text);
    kinds &= ~bit(Kind::kMark);
  }
  if (kinds & bit(Kind::kTraceback)) {
    // Behind a progress bar or the log's own head: the traceback begins in the middle of a line.
    const std::size_t at = text.find("Traceback (most recent call last)");
    if (at != std::string_view::npos && at > 0 && !writer.open &&
        !text.substr(0, at).ends_with("Exception Group ") &&
        !text.substr(0, at).ends_with("C++ ") && text.find_first_not_of(" \t|+", 0) < at) {
      append(writer, text.substr(0, at), kinds);
      text.remove_prefix(at);
    }
  }
  if (writer.open) {
    // An empty line says nothing of what stands behind it.
    const bool goes_on =
        kinds || (!text.empty() && (text[0] == ' ' || text[0] == '\t')) || is_in_box(text);
    if (goes_on) writer.quiet = 0;
    if (!goes_on && !text.empty()) ++writer.quiet;
    if (writer.quiet > kPatience) {
      close(writer);
    } else {
      if (plain && word && writer.work_wanted) behind_.look_at(writer, *word);
      append(writer, text, kinds);
      return;
    }
  }
  plain_ = plain;
  if (plain && word) {
    word->plain = true;
    if (writer.work_wanted || label.lines <= kLearned || is_sample(label.lines)) {
      behind_.look_at(writer, *word);
    }
  }
  if (!kinds) return;
  append(writer, text, kinds);
  writer.quiet = 0;
  // Remarks are one line each; what may go on stays open.
  if (!(kinds & kOpens)) close(writer);
}

void Reader::mark(std::uint32_t index, std::string_view text) {
  if (log_.marks.size() >= kMostMarks || log_.marks.size() * writers_.size() > kMostCounts) return;
  log_.marks.push_back({log_.lines, index, std::string(text.substr(0, kLongestRow))});
  writers_.mark();
}

void Reader::append(Writer& writer, std::string_view text, Kinds kinds) {
  if (!writer.open) {
    writer.open = std::make_unique<Region>();
    writer.open->label = writer.index;
    writer.open_bytes = 0;
    if (kinds & (bit(Kind::kTraceback) | bit(Kind::kFatal))) {
      writer.open->before = writers_.plain_above(writer);
    }
  }
  Region& region = *writer.open;
  region.kinds |= kinds;
  const std::string_view kept = text.substr(0, kLongestRow);
  region.rows.push_back({log_.lines, writer.label.lines, std::string(kept), stream_, begins_});
  region.cut = region.cut || kept.size() < text.size();
  writer.open_bytes += kept.size() + sizeof(Row);
  if (region.rows.size() >= kMostRows || writer.open_bytes >= kMostRegionBytes) close(writer);
}

void Reader::close(Writer& writer) {
  if (!writer.open) return;
  store_.keep(std::move(*writer.open), writer.open_bytes);
  writer.open.reset();
  writer.quiet = 0;
}

Log Reader::finish() {
  log_.links = links_.rows();
  for (std::uint32_t i = 0; i < writers_.size(); ++i) {
    Writer& writer = writers_[i];
    close(writer);
    if (options_.sink) spool_.spill(i);
    const std::size_t held = writer.words.size();
    const std::size_t count = std::min(writer.next_word, kLastWords);
    for (std::size_t k = writer.next_word - count; k < writer.next_word; ++k) {
      writer.label.last_words.emplace_back(writers_.texts().of(writer.word(k)));
    }
    for (std::size_t k = writer.next_word - std::min(writer.next_word, held); k < writer.next_word;
         ++k) {
      Held& word = writer.word(k);
      behind_.look_back(writer, word);
      writer.label.tail.push_back({word.line, std::string(writers_.texts().of(word)), word.again});
    }
    log_.labels.push_back(std::move(writer.label));
  }
  log_.regions = store_.take();
  log_.left_out = store_.left_out();
  return std::move(log_);
}

}  // namespace

Log read(const Pull& pull, const Options& options) {
  Reader reader(options);
  Lines lines(pull, options.block_bytes, options.sample_bytes, options.past_hole);
  reader.vote_on(lines.sample());
  lines.each([&reader](std::span<const Line> some) { reader.take(some); });
  Log log = reader.finish();
  log.bytes = lines.bytes();
  log.zeros = lines.zeros();
  log.cut_lines += lines.cut();
  return log;
}

}  // namespace pm::ranklogs
