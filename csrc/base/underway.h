// Which file is being opened, kept where a process that watches us can see it, and files that must
// not be touched because a process before us died of them. See src/postmortem/underway.py, which
// says how the page is laid out.
#pragma once

#include <cstddef>
#include <string>

namespace pm::underway {

inline constexpr std::size_t kPathBytes = 4096;  // of the page's part that holds the path

// From now on this page is written; it must stay for as long as the process lives.
void watch(char* page) noexcept;

// Opening this file is an error from now on; of a name that ends in a slash, what lies below it.
void refuse(const std::string& path, const std::string& why);

// Says for its lifetime that a file is being opened.
class Opening {
 public:
  explicit Opening(const std::string& path);
  Opening(const Opening&) = delete;
  Opening& operator=(const Opening&) = delete;
  ~Opening();

  // Why it must not be opened; null where it may be.
  const std::string* refused() const noexcept { return refused_; }

 private:
  std::string before_;
  const std::string* refused_ = nullptr;
};

}  // namespace pm::underway
