// The writers of a log: what is known of each while it is read, and whose a prefix is.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "ranklogs/held_lines.h"
#include "ranklogs/reader.h"

namespace pm::ranklogs {

inline constexpr std::size_t kLastWords = 3;
inline constexpr std::size_t kHeldWords = kLastWords + 1;  // the line at hand, and those before it
// Of few writers more is kept: how a process ended is told by its last lines, if by anything.
inline constexpr std::size_t kTail = 32;
inline constexpr std::size_t kMostTails = 1024;
// Of a stack's frames in a row the first are kept, and the last: what was raised stands above them.
inline constexpr unsigned kFrames = 8;
static_assert(std::has_single_bit(kTail) && std::has_single_bit(kHeldWords));

struct Writer {
  std::uint32_t index = 0;
  Label label;
  std::unique_ptr<Region> open;
  std::size_t open_bytes = 0;
  unsigned quiet = 0;
  std::vector<Held> words;  // a ring, of a power of two
  std::size_t next_word = 0;
  unsigned frames = 0;  // so many lines in a row
  std::size_t learned_words = 0;
  unsigned work_wanted = 0;  // behind the last error
  unsigned looked_at = 0;
  std::uint64_t error_line = 0;
  std::string pending;  // text for the sink
  std::string head;     // of a logger, in its last line

  // Where the line goes that comes after `number` others, and what was there before.
  Held& word(std::size_t number) { return words[number & (words.size() - 1)]; }
  const Held& word(std::size_t number) const { return words[number & (words.size() - 1)]; }
};

class Writers {
 public:
  Writers() { all_.push_back(std::make_unique<Writer>()); }  // of lines without a prefix

  Writer& operator[](std::uint32_t index) { return *all_[index]; }
  std::size_t size() const noexcept { return all_.size(); }

  // Whose a prefix is. One more than are told apart has no name, which `log` counts.
  std::uint32_t of(const Prefix& prefix, Log& log);

  // Notes of each how many lines it has so far.
  void mark();

  // Puts a line of the log into the place of one of its writer's that is not held any more.
  Held& hold(Writer& writer, std::string_view text, std::uint64_t line);
  const HeldTexts& texts() const noexcept { return texts_; }
  // The last lines of a writer that were nothing special, the oldest first.
  std::vector<std::string> plain_above(const Writer& writer) const;

 private:
  HeldTexts texts_;
  std::vector<std::unique_ptr<Writer>> all_;
  std::unordered_map<std::string, std::uint32_t> known_;
  std::string key_, last_key_, shortened_;
  std::uint32_t last_index_ = 0;
};

}  // namespace pm::ranklogs
