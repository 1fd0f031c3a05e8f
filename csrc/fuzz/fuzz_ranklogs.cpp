// Any bytes as a log of many ranks. The first byte says how small the blocks and the sample are, so
// that lines fall across their ends, and whether text is handed out; what is handed out is checked.
// Lines of a kind and a text, up to an empty one, say what lines are kept for; the log follows.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "ranklogs/reader.h"

namespace {

// The texts at the start of `input`, and where the log begins.
std::vector<pm::ranklogs::KeepLiteral> literals_of(std::string_view input, std::size_t& from) {
  std::vector<pm::ranklogs::KeepLiteral> literals;
  while (literals.size() < pm::ranklogs::KeepLiterals::kMost) {
    const std::size_t end = input.find('\n', from);
    if (end == std::string_view::npos) break;
    const std::string_view line = input.substr(from, end - from);
    const std::size_t space = line.find(' ');
    const auto kind = pm::ranklogs::kind_of(line.substr(0, space));
    if (!kind || space == std::string_view::npos || line.size() - space < 5) break;
    literals.push_back({std::string(line.substr(space + 1)), *kind});
    from = end + 1;
  }
  if (from < input.size() && input[from] == '\n') ++from;
  return literals;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pm::ranklogs;
  if (size == 0) return 0;
  Options options;
  options.block_bytes = std::size_t{16} << (data[0] % 12);
  options.sample_bytes = std::size_t{64} << (data[0] / 16 % 8);
  if (data[0] & 0x08) options.kept_bytes = 4096;
  std::uint64_t handed_out = 0;
  options.sink = [&](std::uint32_t, std::string_view text) {
    handed_out += static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
  };
  std::size_t from = 1;
  options.keep = literals_of({reinterpret_cast<const char*>(data), size}, from);
  const Pull pull = [&](char* to, std::size_t most) {
    const std::size_t count = std::min(most, size - from);
    std::memcpy(to, data + from, count);
    from += count;
    return count;
  };
  const Log log = read(pull, options);
  std::uint64_t lines = 0;
  for (const Label& label : log.labels) {
    lines += label.lines;
    for (const PlainLine& work : label.work) {
      if (!work.again.since || work.again.since >= work.line) std::abort();
    }
  }
  if (lines != handed_out || lines < log.lines) std::abort();
  for (const Region& region : log.regions) {
    if (region.rows.empty() || region.label >= log.labels.size()) std::abort();
  }
  return 0;
}
