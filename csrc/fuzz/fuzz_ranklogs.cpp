// Any bytes as a log of many ranks. The first byte says how small the blocks and the sample are, so
// that lines fall across their ends, and whether text is handed out; what is handed out is checked.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "ranklogs/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pm::ranklogs;
  if (size == 0) return 0;
  Options options;
  options.block_bytes = std::size_t{16} << (data[0] % 12);
  options.sample_bytes = std::size_t{64} << (data[0] / 16);
  if (data[0] & 0x08) options.kept_bytes = 4096;
  std::uint64_t handed_out = 0;
  options.sink = [&](std::uint32_t, std::string_view text) {
    handed_out += static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
  };
  std::size_t from = 1;
  const Pull pull = [&](char* to, std::size_t most) {
    const std::size_t count = std::min(most, size - from);
    std::memcpy(to, data + from, count);
    from += count;
    return count;
  };
  const Log log = read(pull, options);
  std::uint64_t lines = 0;
  for (const Label& label : log.labels) lines += label.lines;
  if (lines != handed_out || lines < log.lines) std::abort();
  for (const Region& region : log.regions) {
    if (region.rows.empty() || region.label >= log.labels.size()) std::abort();
  }
  return 0;
}
