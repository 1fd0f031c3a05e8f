// A log as blocks of whole lines, whatever its size and wherever it comes from.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "strace/extract.h"

namespace pm::strace {

// Writes up to `size` bytes to `to`; 0 is the end. Throws EvidenceError if it cannot be read on.
using Pull = std::function<std::size_t(char* to, std::size_t size)>;

// Reads from an open descriptor, which stays open.
Pull pull_from(int descriptor);

struct Block {
  std::unique_ptr<char[]> data;
  std::size_t capacity = 0;
  std::size_t size = 0;
  std::uint64_t index = 0;
  Extract extract;
};

// Cuts a stream into blocks. Not for several threads at once: the caller holds a lock.
class BlockReader {
 public:
  explicit BlockReader(Pull pull, std::size_t block_bytes = kBlockBytes);

  // The next block, or false at the end.
  bool next(Block& block);

  std::uint64_t bytes() const noexcept { return bytes_; }
  // Lines longer than kLongestLine, of which the rest was left out.
  std::uint64_t cut_lines() const noexcept { return cut_lines_; }

  static constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
  static constexpr std::size_t kLongestLine = std::size_t{32} << 20;

 private:
  void reserve(Block& block, std::size_t size) const;
  bool skip_rest_of_line();

  Pull pull_;
  std::size_t block_bytes_;
  std::vector<char> carry_;
  std::uint64_t bytes_ = 0;
  std::uint64_t next_ = 0;
  std::uint64_t cut_lines_ = 0;
  bool ended_ = false;
};

}  // namespace pm::strace
