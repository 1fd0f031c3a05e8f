// What loggers put before a line themselves. Forms that no program prints by chance; functions that
// return a size say how many bytes the form takes, 0: it is not there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ranklogs/prefix.h"

namespace pm::ranklogs {

// The head of a record that says which rank wrote it; its other lines have none.
std::size_t ranked_record_at(std::string_view text, Prefix& to) noexcept;

// What vLLM puts before each line of a record: "ERROR 04-17 23:05:06 [core.py:390] ".
RecordHead vllm_head(std::string_view text) noexcept;

// Where the first level of a logger stands in a text, as a word by itself; a size of 0: nowhere.
struct Level {
  std::size_t at = 0;
  std::size_t size = 0;
};
Level level_in(std::string_view text) noexcept;

// A level at the start of a text, and behind it what has a shape, see masked().
RecordHead levelled_head(std::string_view text, std::string_view shape, Prefix& to) noexcept;

// "rank=1" at the end of the name of one of vLLM's workers, and the rank of "Worker_TP1"; -1 where
// a name tells none.
std::int64_t rank_of_worker(std::string_view name) noexcept;

}  // namespace pm::ranklogs
