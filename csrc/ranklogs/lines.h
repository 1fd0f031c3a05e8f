// Cuts a stream into lines in a room of fixed size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace pm::ranklogs {

// Of a longer line only so much is handed out.
constexpr std::size_t kLongestLine = std::size_t{1} << 20;

// Writes up to `size` bytes to `to`; 0 is the end. Throws EvidenceError if it cannot be read on.
using Pull = std::function<std::size_t(char* to, std::size_t size)>;
using PastHole = std::function<std::uint64_t()>;
// `times` that a line stands there one right behind the other: packed, gigabytes of one line are a
// few kilobytes, and they are passed as fast as bytes are compared.
struct Line {
  std::string_view text;  // without its end
  std::uint64_t times = 1;
  bool clean = false;  // surely no control characters in it, tabs and carriage returns counted
};
// Some lines that stand behind each other: what they need can be asked for before it is needed.
using TakeLines = std::function<void(std::span<const Line> lines)>;
constexpr std::size_t kMostAtOnce = 16;

class Lines {
 public:
  // `past_hole` may pass a hole of the file, of which `pull` would give zeros, and returns its
  // size.
  Lines(const Pull& pull, std::size_t block_bytes, std::size_t sample_bytes,
        const PastHole& past_hole = {});

  // Reads the start of the stream, whole lines or not, which stays to be read.
  std::string_view sample();
  // Hands out every line, at most kMostAtOnce together.
  void each(const TakeLines& take);

  std::uint64_t bytes() const noexcept { return bytes_; }
  std::uint64_t cut() const noexcept { return cut_; }
  // Zero bytes, which are left out: a file has them where its writer went on behind a place from
  // which it was cut, or where power failed before its text was on the disk.
  std::uint64_t zeros() const noexcept { return zeros_; }

 private:
  void fill(std::size_t wanted);
  void pass_holes();
  std::size_t without_zeros(char* begin, std::size_t size);
  std::size_t hand_out(const TakeLines& take);

  const Pull& pull_;
  std::size_t block_bytes_, sample_bytes_;
  std::vector<char> buffer_;
  std::size_t size_ = 0;
  const PastHole past_hole_;
  std::uint64_t bytes_ = 0, cut_ = 0, zeros_ = 0;
  std::size_t run_ = 0;  // zeros that the last byte that was pulled ends
  bool ended_ = false;
  bool skipping_ = false;
};

}  // namespace pm::ranklogs
