// Any bytes as a pattern and a log: the first line is a pattern, the rest is text. What the filter
// and the machine find together must be what the machine finds alone in every line.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "signatures/scanner.h"

namespace {

// Patterns as they ship: text that is hostile to them is more likely to come than a hostile one.
const pm::signatures::Scanner& shipped() {
  static const pm::signatures::Scanner scanner({
      R"(Connection closed by peer \[?(?P<peer>[0-9a-fA-F.:]+)\]?:(?P<port>\d+))",
      R"((?P<file>\S+\.cuh?):(\d+): .*block: \[.*thread: \[.*Assertion `(?P<check>.*)` failed)",
      R"(NCCL INFO \S+:\d+ -> (?P<code>\d+))",
      R"((?:file|data) too (?:short|long)$|^\w+ed too)",
  });
  return scanner;
}

void check(const pm::signatures::Scanner& scanner, std::string_view text) {
  const auto found = scanner.scan(text, 1000);
  std::uint64_t hits = 0;
  for (const std::uint64_t count : found.counts) hits += count;
  std::uint64_t alone = 0;
  std::uint64_t lines = 0;
  for (std::size_t begin = 0; begin <= text.size(); ++lines) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.size() > 2000) return;  // a long line is looked at in pieces
    const std::int64_t from = 0;
    const auto to = static_cast<std::int64_t>(line.size());
    alone += scanner.scan_lines(line, {&from, 1}, {&to, 1}).size();
    begin = end + 1;
  }
  if (alone != hits || found.line_ends + 1 < lines) std::abort();
}

// Texts of any length in any bytes: those that the pass finds are those that are there.
void check_texts(std::string_view input) {
  std::vector<std::string> texts = {"ghp_", "sk-", "@", "AKIA", "Bearer", "-us", "hooks.slack."};
  for (std::size_t i = 1; i < 12 && i < input.size(); ++i) texts.emplace_back(input.substr(i, i));
  std::erase(texts, std::string());
  const std::string_view data = input.substr(input.size() / 2);
  const auto found = pm::texts_in(texts, data);
  for (std::uint32_t i = 0; i < texts.size(); ++i) {
    const bool stands = data.find(texts[i]) != std::string_view::npos;
    if (std::binary_search(found.begin(), found.end(), i) != stands) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(input.find('\n'), input.size());
  const std::string_view text = input.substr(std::min(end + 1, input.size()));
  check(shipped(), text);
  check_texts(input);
  try {
    const pm::signatures::Syntax syntax = pm::signatures::parse(input.substr(0, end));
    const pm::signatures::Program program(syntax);
    pm::signatures::Scratch scratch;
    pm::signatures::Span spans[4];
    const std::string_view line = text.substr(0, std::min(text.find('\n'), std::size_t{2000}));
    const bool matched = program.search({line}, 0, scratch, spans);
    if (matched && (spans[0].begin > spans[0].end || spans[0].end > line.size())) std::abort();
    // Every match contains one of the texts that the filter would look for.
    const auto literals = pm::signatures::required_literals(syntax);
    const auto inside = [&](const std::string& wanted) {
      return line.substr(spans[0].begin, spans[0].end - spans[0].begin).find(wanted) !=
             std::string_view::npos;
    };
    if (matched && !literals.any_of.empty() &&
        std::none_of(literals.any_of.begin(), literals.any_of.end(), inside)) {
      std::abort();
    }
    const pm::signatures::Scanner alone({std::string(input.substr(0, end))});
    check(alone, text);
    // The scanner begins its search near the text that it found: it must come to the same match.
    const auto found = alone.scan(line, 1);
    if (!line.ends_with('\r') && (found.hits.size() == 1) != matched) std::abort();
    if (!line.ends_with('\r') && matched && found.hits[0].begin != spans[0].begin) std::abort();
  } catch (const std::invalid_argument&) {
  }
  return 0;
}
