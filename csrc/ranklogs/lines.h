// Cuts a stream into lines in a room of fixed size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace pm::ranklogs {

// Of a longer line only so much is handed out.
constexpr std::size_t kLongestLine = std::size_t{1} << 20;

// Writes up to `size` bytes to `to`; 0 is the end. Throws EvidenceError if it cannot be read on.
using Pull = std::function<std::size_t(char* to, std::size_t size)>;
using TakeLine = std::function<void(std::string_view line)>;

class Lines {
 public:
  Lines(const Pull& pull, std::size_t block_bytes, std::size_t sample_bytes);

  // Reads the start of the stream, whole lines or not, which stays to be read.
  std::string_view sample();
  // Hands out every line without its end.
  void each(const TakeLine& take);

  std::uint64_t bytes() const noexcept { return bytes_; }
  std::uint64_t cut() const noexcept { return cut_; }

 private:
  void fill(std::size_t wanted);
  std::size_t hand_out(const TakeLine& take);

  const Pull& pull_;
  std::size_t block_bytes_, sample_bytes_;
  std::vector<char> buffer_;
  std::size_t size_ = 0;
  std::uint64_t bytes_ = 0, cut_ = 0;
  bool ended_ = false;
  bool skipping_ = false;
};

}  // namespace pm::ranklogs
