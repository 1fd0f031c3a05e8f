// The forms that prefixes have, each by itself: what stands at the start of a text. Functions that
// return a size say how many bytes the form takes, with the blank behind it; 0: it is not there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ranklogs/clean.h"
#include "ranklogs/prefix.h"

namespace pm::ranklogs {

inline bool is_letter(char c) noexcept { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; }
// A character of a host's or a service's name.
inline bool is_name(char c) noexcept {
  return is_digit(c) || is_letter(c) || c == '_' || c == '-' || c == '.';
}

// Digits at the start of `text`, at most 9 of them; the size is 0 where there are none or more.
struct Number {
  std::int64_t value = 0;
  std::size_t size = 0;
};
Number number_at(std::string_view text) noexcept;
// The same of a number that a rank can have: a date, 20251122, is none.
constexpr std::int64_t kMostRank = 9'999'999;
Number rank_at(std::string_view text) noexcept;

// Whether `text` begins as `form` says: A a capital, a a letter, d a digit, . a digit or a blank.
bool has_form(std::string_view text, std::string_view form) noexcept;

// A date and time, as collectors of logs put it first.
std::size_t time_at(std::string_view text) noexcept;
// ctime(3), without its line's end.
std::size_t ctime_at(std::string_view text) noexcept;

// Forms that no program prints by chance: they count in any log, on any line.
std::size_t certain_bracket(std::string_view text, Prefix& to) noexcept;
std::size_t ray_at(std::string_view text, Prefix& to) noexcept;
std::size_t before_certain(std::string_view text, Prefix& to) noexcept;

// Forms that count where the log has voted for them.
std::size_t voted_bracket(std::string_view text, bool tee, bool number, Prefix& to) noexcept;
std::size_t task_at(std::string_view text, std::int64_t& task) noexcept;
std::string_view node_at(std::string_view text, std::size_t& size) noexcept;
std::string_view service_at(std::string_view text, std::size_t& size) noexcept;
std::size_t journal_at(std::string_view text, Prefix& to) noexcept;

// A prefix of no known form with one '0' for each number and the blanks before it; where it stands
// at the start of a text. A number behind the word "rank" is a rank, and the one at `rank_at_byte`
// of the shape.
std::string masked(std::string_view prefix);
std::size_t shape_at(std::string_view text, std::string_view shape, std::size_t rank_at_byte,
                     Prefix& to) noexcept;
// Where in a shape numbers stand that may be ranks: no parts of times, no steps.
std::vector<std::size_t> counters_of(std::string_view shape);
// Whether what stands before a number says that it counts processes of a job.
bool names_task(std::string_view before) noexcept;

bool is_log_word(std::string_view name) noexcept;
std::string without_digits(std::string_view name);

}  // namespace pm::ranklogs
