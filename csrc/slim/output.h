// Writing at places of a file.
#pragma once

#include "base/bytes.h"

namespace pm::slim {

// Of a regular file. Throws std::system_error when the file cannot take it.
class Output {
 public:
  explicit Output(int fd) : fd_(fd) {}

  void write(Bytes bytes, std::uint64_t offset);
  // Pages of zeros become holes; the file must not have had anything there before.
  void write_sparse(Bytes bytes, std::uint64_t offset);
  // Gives the file its full size.
  void finish(std::uint64_t size);
  // Gives the space of a part back; it reads as zeros then. Does nothing where that cannot be done.
  void punch(std::uint64_t offset, std::uint64_t size) noexcept;

 private:
  int fd_;
};

}  // namespace pm::slim
