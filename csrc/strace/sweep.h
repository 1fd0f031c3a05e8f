// Whether words stand in a log at all: what is asked of most logs did not happen, and to know that
// takes a fraction of the time that it takes to understand them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace pm::strace {

struct Sweep {
  // Every byte was looked at, and none of the words is there. Otherwise nothing is known: one may
  // be there, or the file could not be read to its end.
  bool absent = false;
  std::uint64_t lines = 0;  // of a file without them; the last may lack its newline
};

// Looks through a file of `size` bytes, at its end first, where most failures are. Where a word is
// found the rest is left to who reads the log: so it must fit into the page cache, or slow disks
// are read twice. `stop` is asked now and then, and ends it. Words have 2 to 64 bytes.
// Calls by the name of kRingWord do not count in a log that has the start of its programs, where
// all rings are those that libuv makes for epoll_ctl() alone.
Sweep sweep(int descriptor, std::uint64_t size, const std::vector<std::string>& words,
            unsigned threads, bool from_start, const std::function<bool()>& stop);

inline constexpr std::string_view kRingWord = "io_uring_";

// A word and its two bytes that are the least frequent in logs.
struct SoughtWord {
  std::string text;
  std::size_t rare[2];
};
SoughtWord sought(const std::string& word);

// Whether a word that stands at a place does not count.
using Excused = std::function<bool(const SoughtWord& word, const char* place)>;

// Adds the newlines in the first `counted` of the bytes at `begin`; true, and the count is of no
// use, if one of the words lies in [begin, end).
bool any_word_in(const char* begin, const char* end, std::size_t counted,
                 const std::vector<SoughtWord>& words, const Excused& excused,
                 std::uint64_t& newlines);

}  // namespace pm::strace
