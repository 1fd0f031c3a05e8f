#include "ranklogs/work.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

#include "ranklogs/words.h"

namespace pm::ranklogs {
namespace {

constexpr std::size_t kCompared = 240;
constexpr std::size_t kMostForms = std::size_t{1} << 17;
constexpr std::size_t kFewestLetters = 3;
// A form with so many values counts, also where it begins again from a checkpoint; fewer may be the
// numbers of workers, which come by turns.
constexpr int kMany = 10;

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
bool is_letter(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || static_cast<unsigned char>(c) >= 0x80;
}

class Hash {
 public:
  void add(char c) noexcept {
    value_ = (value_ ^ static_cast<unsigned char>(c)) * std::uint64_t{0x100000001b3};
  }
  void add(std::string_view text) noexcept {
    for (const char c : text) add(c);
    add(' ');
  }
  // Mixed, so that short texts differ in all bits.
  std::uint64_t value() const noexcept {
    return (value_ ^ (value_ >> 32)) * std::uint64_t{0xd6e8feb86659fd93};
  }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325;
};

bool is_upper(char c) noexcept { return c >= 'A' && c <= 'Z'; }

// Whether a word calls its line an error or a warning.
bool is_wrong(std::string_view word) noexcept {
  return word.size() > 3 && std::any_of(word.begin(), word.end(), is_upper) &&
         std::ranges::any_of(
             kWrong, [&](auto wrong) { return word.find(wrong) != std::string_view::npos; });
}

// Whether a number in or behind a word is a time: "took", "eta:", "step_time=".
bool names_time(std::string_view word) noexcept {
  const auto letters =
      std::find_if_not(word.begin(), word.end(), [](char c) { return is_letter(c) || c == '_'; });
  word = word.substr(0, static_cast<std::size_t>(letters - word.begin()));
  return word.size() > 2 &&
         std::ranges::any_of(kTimes, [&](auto end) { return word.ends_with(end); });
}

bool is_blank(char c) noexcept { return c == ' ' || c == '\t'; }
bool opens(char c) noexcept { return c == '[' || c == '(' || c == '{' || c == '<' || c == '|'; }
bool closes(char c) noexcept {
  return c == ']' || c == ')' || c == '}' || c == '>' || c == '|' || c == ',' || c == ';' ||
         c == ':' || c == '.' || c == '!';
}

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // Actions writes one before times

std::string_view bare(std::string_view word) noexcept {
  if (word.starts_with(kByteOrderMark)) word.remove_prefix(kByteOrderMark.size());
  while (!word.empty() && opens(word.front())) word.remove_prefix(1);
  while (!word.empty() && closes(word.back())) word.remove_suffix(1);
  return word;
}

// A clock, a date, a time that is left: digits in groups of two, as in 05:14:06.250 or 54:22<12:41;
// three numbers with the same mark between them; seconds since 1970.
bool is_time(std::string_view word) noexcept {
  std::size_t colons = 0, dashes = 0, slashes = 0, run = 0, digits = 0;
  bool fraction = false, pairs = true;
  for (const char c : word) {
    if (is_digit(c)) {
      ++digits;
      if (++run > 2 && colons && !fraction) pairs = false;
      continue;
    }
    if (c == ':' && run > 2) pairs = false;
    colons += c == ':';
    dashes += c == '-';
    slashes += c == '/';
    fraction = c == '.' || c == ',' || c == '+';
    if (!(c == ':' || c == '-' || c == '/' || c == '.' || c == ',' || c == '+' || c == '<' ||
          c == 'T' || c == 'Z' || c == '?')) {
      return false;
    }
    run = 0;
  }
  const bool epoch = digits >= 10 && word.size() >= 10 && word[0] == '1' &&
                     (word.size() == 10 || word[10] == '.' || word.size() == 13);
  return digits && ((colons && pairs) || dashes >= 2 || slashes == 2 || epoch);
}

bool is_rate(std::string_view word) noexcept {
  return std::ranges::any_of(kRateEnds, [&](auto end) { return word.ends_with(end); });
}

bool is_unit(std::string_view word) noexcept {
  return is_rate(word) || std::ranges::find(kUnits, word) != std::end(kUnits);
}

// Eight signs or more of a hash or an identifier.
bool is_hex(std::string_view word) noexcept {
  return word.size() >= 8 && std::all_of(word.begin(), word.end(), [](char c) {
           return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || c == '-';
         });
}

// The signs that bars are drawn with, which are as many as was done.
bool draws(std::string_view text, std::size_t at) noexcept {
  const auto byte = [&](std::size_t i) {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0;
  };
  return byte(0) == 0xe2 && byte(1) >= 0x94 && byte(1) <= 0xa3;
}

bool has_exponent(std::string_view text) noexcept {
  return text.size() > 2 && (text[0] == 'e' || text[0] == 'E') &&
         (text[1] == '+' || text[1] == '-') && is_digit(text[2]);
}

class Taker {
 public:
  explicit Taker(std::string_view text) : rest_(text) {}

  std::optional<Form> take() {
    for (std::string_view word = next(); !word.empty(); word = next()) {
      if (is_wrong(word)) return std::nullopt;
      one(word);
    }
    if (letters_ < kFewestLetters || !moves_) return std::nullopt;
    return Form{fixed_.value(), moving_.value()};
  }

 private:
  std::string_view next() noexcept {
    std::size_t begin = 0;
    while (begin < rest_.size() && is_blank(rest_[begin])) ++begin;
    std::size_t end = begin;
    while (end < rest_.size() && !is_blank(rest_[end])) ++end;
    const std::string_view word = rest_.substr(begin, end - begin);
    rest_.remove_prefix(end);
    return word;
  }

  void one(std::string_view word) {
    if (quoted(word)) return;
    const std::string_view core = bare(word);
    const bool timed = of_time_;
    of_time_ = names_time(core);
    if (is_digit(core.empty() ? ' ' : core[0]) && is_time(core)) return fixed_.add('T');
    bool numbered = false, slash = false, lettered = false;
    for (const char c : core) {
      numbered |= is_digit(c);
      slash |= c == '/' || c == '\\';
      lettered |= is_letter(c);
    }
    if (slash && lettered) {
      const bool rate = is_digit(core[0]) && (is_rate(core) || core.find(kPerItem) < core.size());
      fixed_.add(rate ? 'R' : 'P');
      return rate ? void() : item(core);
    }
    if (numbered && core.starts_with("0x")) return fixed_.add('X');
    if (numbered && lettered && is_hex(core)) {
      fixed_.add('X');
      return item(core);
    }
    const std::size_t open = word.find('[');
    if (numbered && open && open < word.size() && is_hex(bare(word.substr(open)))) {
      parts(word.substr(0, open), timed);  // Celery's "shards.open[4711c0de-…]"
      fixed_.add('X');
      return item(word.substr(open));
    }
    parts(word, timed || of_time_ || lasts(core));
  }

  // A text in quotes that is more than a name: what is done is another one each time.
  bool quoted(std::string_view word) noexcept {
    std::size_t at = 0;
    while (at < word.size() && opens(word[at])) ++at;
    if (at == word.size()) return false;
    const char quote = word[at];
    if (quote != '"' && quote != '\'' && quote != '`') return false;
    const char* const begin = word.data() + at + 1;
    const std::string_view behind(begin, static_cast<std::size_t>(rest_.end() - begin));
    const std::size_t end = behind.find(quote);
    if (end == std::string_view::npos) return false;
    const std::string_view said = behind.substr(0, end);
    if (said.find_first_of(" /0123456789") == std::string_view::npos) return false;
    letters_ += kFewestLetters;
    fixed_.add('Q');
    item(said);
    rest_ = behind.substr(end + 1);
    return true;
  }

  void item(std::string_view text) noexcept {
    moving_.add(text);
    moves_ = true;
  }

  // Whether a number is one of seconds: "3.2s", or "3.2 s".
  bool lasts(std::string_view core) noexcept {
    if (core.empty() || !is_digit(core[0])) return false;
    std::size_t end = 0;
    while (end < core.size() && (is_digit(core[end]) || core[end] == '.')) ++end;
    if (end < core.size()) return is_unit(core.substr(end));
    const std::string_view kept = rest_;
    const bool unit = is_unit(bare(next()));
    rest_ = kept;
    return unit;
  }

  void parts(std::string_view word, bool of_time) noexcept {
    char last = 0;
    for (std::size_t at = 0; at < word.size(); ++at) {
      const char c = word[at];
      if (draws(word, at)) {
        at += 2;
        continue;
      }
      if (is_digit(last) && has_exponent(word.substr(at))) {  // E+00 becomes E-01
        ++at;
        continue;
      }
      if (is_digit(c)) {
        if (!is_digit(last)) fixed_.add('#');
        if (!of_time) moving_.add(c);
        moves_ = moves_ || !of_time;
      } else if (c != last || is_letter(c)) {
        const bool point = c == '.' && is_digit(last);
        if (point && !of_time) moving_.add(c);
        if (!point) fixed_.add(c);
        letters_ += is_letter(c);
      }
      last = c == '.' && is_digit(last) && at + 1 < word.size() ? '0' : c;
    }
    fixed_.add(' ');
    if (!of_time) moving_.add(' ');
  }

  std::string_view rest_;
  Hash fixed_, moving_;
  std::size_t letters_ = 0;
  bool moves_ = false;
  bool of_time_ = false;  // the word before names a time
};

std::uint64_t key_of(std::uint32_t writer, const Form& form) noexcept {
  return form.fixed ^ ((writer + std::uint64_t{1}) * std::uint64_t{0x9e3779b97f4a7c15});
}

std::pair<std::uint64_t, std::uint64_t> bits_of(std::uint64_t moving) noexcept {
  return {std::uint64_t{1} << (moving >> 58), std::uint64_t{1} << (moving >> 52 & 63)};
}

}  // namespace

std::optional<Form> form_of(std::string_view text) {
  return Taker(text.substr(0, kCompared)).take();
}

Again Forms::again(Seen& seen, std::uint64_t moving) {
  const auto [value, other] = bits_of(moving);
  const bool few = std::popcount(seen.values) < kMany;
  const bool known = seen.now == moving || (few && seen.values & value && seen.others & other);
  seen.now = moving;
  if (known) return {};
  seen.values |= value;
  seen.others |= other;
  return {seen.first, ++seen.times};
}

Again Forms::learn(std::uint32_t writer, std::string_view text, std::uint64_t line) {
  const std::optional<Form> form = form_of(text);
  if (!form) return {};
  const auto found = seen_.find(key_of(writer, *form));
  if (found != seen_.end()) return again(found->second, form->moving);
  if (seen_.size() < kMostForms) {
    const auto [value, other] = bits_of(form->moving);
    seen_.emplace(key_of(writer, *form), Seen{line, form->moving, 1, value, other});
  }
  return {};
}

Again Forms::find(std::uint32_t writer, std::string_view text) {
  const std::optional<Form> form = form_of(text);
  const auto found = form ? seen_.find(key_of(writer, *form)) : seen_.end();
  return found == seen_.end() ? Again{} : again(found->second, form->moving);
}

}  // namespace pm::ranklogs
