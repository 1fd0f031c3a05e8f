// Which lines tell that a process goes on with its work, in any language and without known words:
// those of a form that it had printed before, in which something has moved on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>

namespace pm::ranklogs {

// A line taken apart, as hashes: what is the same each time a program prints it, and what counts
// on. Times, rates and addresses are neither: they change while nothing is done.
struct Form {
  std::uint64_t fixed = 0;
  std::uint64_t moving = 0;
};

// Nothing for lines without words, and for those that call themselves an error or a warning.
std::optional<Form> form_of(std::string_view text);

// Of a line in which something has moved on since the one before of its form: where its form stood
// first, and how often it moved. Zeros for other lines, also where few values come by turns.
struct Again {
  std::uint64_t since = 0;  // line
  std::uint64_t times = 0;
};

// The forms that the writers of a log printed.
class Forms {
 public:
  Again learn(std::uint32_t writer, std::string_view text, std::uint64_t line);
  Again find(std::uint32_t writer, std::string_view text);

 private:
  struct Seen {
    std::uint64_t first = 0;  // line
    std::uint64_t now = 0;    // what counts on, in the last line
    std::uint64_t times = 0;
    std::uint64_t values = 0;  // a bit for each that there was, and one of others:
    std::uint64_t others = 0;  // two of ten share both with a probability of 1 %
  };
  static Again again(Seen& seen, std::uint64_t moving);

  std::unordered_map<std::uint64_t, Seen> seen_;
};

}  // namespace pm::ranklogs
