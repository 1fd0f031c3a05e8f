// Every call of a log as rows of numbers, for NumPy and Parquet.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "strace/feed.h"

namespace pm::strace {

// One call: 72 bytes, whatever the line is long. Texts are not in it, but numbers of texts.
struct Row {
  std::int64_t start_ns;     // epoch for -ttt, since midnight for -t and -tt; -1: not told
  std::int64_t duration_ns;  // of -T, or between the two halves; -1: not told
  std::int64_t result;       // 0 where it is not known
  std::int64_t bytes;        // that a read or write moved
  std::int64_t line;         // from 1, where it ended
  std::int64_t began_line;   // 0: not in the log
  std::int32_t pid;
  std::int32_t fd;        // -1: it is about none
  std::int32_t file;      // index of the log
  std::int32_t target;    // index of its path or peer, -1: unknown or none
  std::uint16_t syscall;  // index of its name
  std::uint16_t errno_;   // index of its error, 0: it did not fail
  std::uint8_t kind;      // of the target: Kind
  std::uint8_t source;    // how the target is known: Origin
  std::uint8_t flags;     // RowFlag
  std::uint8_t unused = 0;
};
static_assert(sizeof(Row) == 72);

enum RowFlag : std::uint8_t {
  kReturned = 1,  // its result is known
  kJoined = 2,    // it ended on another line than it began
  kUnfinished = 4,
  kInjected = 8,  // strace made it fail
  kDeleted = 16,  // the target was deleted by then
};

// Rows one behind another. Growing moves no byte where the C library can remap pages.
class Rows {
 public:
  Rows() = default;
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;
  Rows(Rows&& other) noexcept;
  Rows& operator=(Rows&& other) noexcept;
  ~Rows() { std::free(data_); }
  void add(const Row& row);
  const Row* data() const noexcept { return data_; }
  Row* data() noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }

 private:
  Row* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

// Texts, each once, numbered in the order in which they came.
class Texts {
 public:
  // The number of a text; -1 when there is no room for another one.
  std::int32_t number(std::string_view text);
  const std::vector<std::string>& all() const noexcept { return all_; }
  void clear();

 private:
  static constexpr std::size_t kMost = 4'000'000;
  std::unordered_map<std::string, std::int32_t> index_;
  std::vector<std::string> all_;
  std::string last_;
  std::int32_t last_number_ = -1;
};

class Columns final : public Sink {
 public:
  // With `full`, rows are handed over whenever there are `batch` of them, and then forgotten.
  explicit Columns(Mask mask, std::size_t batch = 0, std::function<void(Columns&)> full = nullptr);

  void begin(const LogLabel& label) override;
  void call(const CallRecord& call, const Tracker& tracker) override;
  void close() override;

  Rows take_rows() { return std::move(rows_); }
  const std::vector<std::string>& files() const noexcept { return files_; }
  const std::vector<std::string>& targets() const noexcept { return targets_.all(); }
  const std::vector<std::string>& errors() const noexcept { return errors_.all(); }
  // Names of the calls, those that no table knows behind the others.
  std::vector<std::string> syscalls() const;

 private:
  void hand_over();

  MaskedTexts masked_;
  std::size_t batch_;
  std::function<void(Columns&)> full_;
  Rows rows_;
  Texts targets_;
  Texts errors_;
  Texts other_calls_;
  std::vector<std::string> files_;
  std::int32_t first_file_ = 0;
};

}  // namespace pm::strace
