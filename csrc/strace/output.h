// What an export writes to: a descriptor behind a buffer.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace pm::strace {

// The file that is written to took no more; `code` is the errno.
class WriteError : public std::runtime_error {
 public:
  explicit WriteError(int code);
  int code() const noexcept { return code_; }

 private:
  int code_;
};

class OutputFile {
 public:
  // The descriptor stays open.
  explicit OutputFile(int descriptor) : descriptor_(descriptor) {}

  void add(std::string_view text) {
    buffer_.append(text);
    if (buffer_.size() >= kBuffer) flush();
  }
  void flush();

 private:
  static constexpr std::size_t kBuffer = std::size_t{1} << 18;
  int descriptor_;
  std::string buffer_;
};

// Appends text so that it is valid UTF-8 and holds no control character: those are written as \xNN.
void append_printable(std::string& out, std::string_view text);

// As JSON: control characters stay what they are, escaped; a byte that is no character is told as
// the text \xNN.
void append_json_string(std::string& out, std::string_view text);
void append_csv_field(std::string& out, std::string_view text);

}  // namespace pm::strace
