#include "signatures/scanner.h"

#include <algorithm>
#include <map>

namespace pm::signatures {
namespace {

constexpr std::size_t kBefore = 2048;  // of a long line, looked at before a text that was found

std::uint64_t count_line_ends(std::string_view text) {
  return static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

Scanner::Scanner(const std::vector<std::string>& patterns) {
  std::map<std::string, std::vector<std::uint32_t>> users;
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    const std::string where = "pattern " + std::to_string(i) + ": ";
    try {
      const Syntax syntax = parse(patterns[i]);
      signatures_.push_back({syntax.groups, required_literals(syntax), Program(syntax)});
    } catch (const PatternError& error) {
      throw std::invalid_argument(where + error.what());
    }
    const auto& texts = signatures_.back().literals.any_of;
    const auto of_no_use = [](const std::string& text) {
      return text.size() < LiteralFilter::kWindow || text.find('\n') != std::string::npos;
    };
    if (texts.empty() || std::any_of(texts.begin(), texts.end(), of_no_use)) {
      throw std::invalid_argument(where + "no text of four bytes that every match contains");
    }
    for (const std::string& text : texts) users[text].push_back(static_cast<std::uint32_t>(i));
  }
  std::vector<std::string> texts;
  for (auto& [text, indices] : users) {
    texts.push_back(text);
    users_.push_back(std::move(indices));
  }
  filter_ = std::make_unique<LiteralFilter>(std::move(texts));
}

// What one pass keeps in mind: how far each signature has been looked for in the line at hand.
class Scanner::Pass {
 public:
  explicit Pass(const Scanner& scanner) : scanner_(scanner), done_(scanner.size(), 0) {}

  // From here on it is about the line [begin, end) of the data, without its end.
  void enter(std::size_t begin, std::size_t end) {
    begin_ = begin;
    end_ = end;
    for (const std::uint32_t signature : touched_) done_[signature] = 0;
    touched_.clear();
  }

  // Looks for a signature, a text of which stands at `at` of this line, unless that is done.
  bool look(std::string_view data, std::uint32_t signature, std::size_t at) {
    if (done_[signature] > at) return false;
    if (done_[signature] == 0) touched_.push_back(signature);
    const Signature& wanted = scanner_.signatures_[signature];
    const std::size_t from = at - begin_ > kBefore ? at - kBefore : begin_;
    const std::size_t to = std::min(end_, from + kWindowBytes);
    text_begin = from;
    text_end = to;
    if (wanted.literals.exact) {
      spans.assign(1,
                   {static_cast<std::uint32_t>(at - from),
                    static_cast<std::uint32_t>(at - from + wanted.literals.any_of.front().size())});
      done_[signature] = SIZE_MAX;
      return true;
    }
    spans.assign(wanted.groups.size() + 1, Span{});
    const Text text{data.substr(from, to - from), from == begin_, to == end_};
    const std::size_t lead = wanted.literals.lead;
    const std::size_t start = at - from > lead ? at - from - lead : 0;
    const bool found = wanted.program.search(text, start, scratch_, spans);
    // A text near the end of the piece gets a piece of its own.
    done_[signature] = found || to == end_ ? SIZE_MAX : std::max(at + 1, to - kBefore);
    return found;
  }

  std::vector<Capture> captures(std::uint32_t signature) const {
    std::vector<Capture> result;
    for (std::uint32_t i = 1; i < spans.size(); ++i) {
      if (spans[i].begin == kNowhere || spans[i].end == kNowhere) continue;
      if (scanner_.signatures_[signature].groups[i - 1].empty()) continue;
      result.push_back({i, text_begin + spans[i].begin, text_begin + spans[i].end});
    }
    return result;
  }

  std::vector<Span> spans;  // of the last match, from text_begin on
  std::size_t text_begin = 0;
  std::size_t text_end = 0;

 private:
  const Scanner& scanner_;
  Scratch scratch_;
  std::vector<std::size_t> done_;
  std::vector<std::uint32_t> touched_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

Found Scanner::scan(std::string_view data, std::uint64_t each) const {
  Found found;
  found.counts.assign(size(), 0);
  Pass pass(*this);
  // The line at hand is [begin, end). Places come line by line: a text that begins before one that
  // was found earlier covers the beginning of that one, and texts have no line ends.
  std::size_t begin = 0;
  std::size_t end = 0;
  std::uint64_t number = 0;
  const auto enter = [&](std::size_t at) {
    if (at < end) return;
    const std::string_view skipped = data.substr(end, at - end);
    const std::size_t before = skipped.rfind('\n');
    const std::size_t next = before == std::string_view::npos ? end : end + before + 1;
    number += count_line_ends(data.substr(begin, next - begin));
    begin = next;
    const std::size_t stop = data.find('\n', at);
    end = stop == std::string_view::npos ? data.size() : stop + 1;
    std::size_t text_end = stop == std::string_view::npos ? end : stop;
    if (text_end > begin && data[text_end - 1] == '\r') --text_end;
    pass.enter(begin, text_end);
  };
  filter_->scan(data, [&](std::uint32_t text, std::size_t at) {
    enter(at);
    for (const std::uint32_t signature : users_[text]) {
      if (!pass.look(data, signature, at)) continue;
      if (found.counts[signature]++ >= each) continue;
      found.hits.push_back({signature, pass.text_begin + pass.spans[0].begin,
                            pass.text_begin + pass.spans[0].end, pass.text_begin, pass.text_end,
                            number, pass.captures(signature)});
    }
  });
  found.line_ends = number + count_line_ends(data.substr(begin));
  std::stable_sort(found.hits.begin(), found.hits.end(), [](const Hit& a, const Hit& b) {
    return a.line != b.line ? a.line < b.line : a.signature < b.signature;
  });
  return found;
}

std::vector<LineHit> Scanner::scan_lines(std::string_view data,
                                         std::span<const std::int64_t> begins,
                                         std::span<const std::int64_t> ends) const {
  std::vector<LineHit> hits;
  Pass pass(*this);
  const std::size_t count = std::min(begins.size(), ends.size());
  for (std::size_t i = 0; i < count; ++i) {
    if (begins[i] < 0 || ends[i] < begins[i]) continue;
    const auto begin = static_cast<std::size_t>(begins[i]);
    const auto end = static_cast<std::size_t>(ends[i]);
    if (end > data.size()) continue;
    const std::string_view line = data.substr(begin, end - begin);
    const std::size_t before = hits.size();
    bool fresh = true;
    filter_->scan(line, [&](std::uint32_t text, std::size_t at) {
      if (fresh) pass.enter(0, line.size());
      fresh = false;
      for (const std::uint32_t signature : users_[text]) {
        if (pass.look(line, signature, at)) {
          hits.push_back({static_cast<std::uint32_t>(i), signature, pass.captures(signature)});
        }
      }
    });
    std::sort(hits.begin() + static_cast<std::ptrdiff_t>(before), hits.end(),
              [](const LineHit& a, const LineHit& b) { return a.signature < b.signature; });
  }
  return hits;
}

}  // namespace pm::signatures
