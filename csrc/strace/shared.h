// Texts that many tasks have in common: a fork hands on what its parent has, and copies nothing.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace pm::strace {

// A text that is never changed, only replaced.
class SharedText {
 public:
  SharedText() = default;
  SharedText(std::string text)  // NOLINT: it is the text
      : text_(text.empty() ? nullptr : std::make_shared<const std::string>(std::move(text))) {}

  const std::string& get() const noexcept {
    static const std::string nothing;
    return text_ ? *text_ : nothing;
  }
  bool empty() const noexcept { return !text_; }

 private:
  std::shared_ptr<const std::string> text_;
};

// The same of a list of words.
class SharedWords {
 public:
  SharedWords() = default;
  SharedWords(std::vector<std::string> words)  // NOLINT: it is the words
      : words_(words.empty() ? nullptr
                             : std::make_shared<const std::vector<std::string>>(std::move(words))) {
  }

  const std::vector<std::string>& get() const noexcept {
    static const std::vector<std::string> nothing;
    return words_ ? *words_ : nothing;
  }
  operator const std::vector<std::string>&() const noexcept { return get(); }  // NOLINT
  bool empty() const noexcept { return !words_; }

 private:
  std::shared_ptr<const std::vector<std::string>> words_;
};

}  // namespace pm::strace
