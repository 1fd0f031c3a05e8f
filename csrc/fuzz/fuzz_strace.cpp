// Any bytes as a log: lines, calls, descriptors, statistics, and the check against annotations. The
// first byte says how small the blocks are, so that lines fall across their ends.
#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "fuzz/strace_bytes.h"
#include "strace/log.h"
#include "strace/rings.h"
#include "strace/sweep.h"

namespace {

// The search for words says what a plain one says, of words of the log itself and of others.
void search(const char* begin, const char* end) {
  const std::string_view all(begin, static_cast<std::size_t>(end - begin));
  std::vector<std::string> words = {"ENOSPC", "io_uring_enter"};
  if (all.size() >= 9) words.emplace_back(all.substr(all.size() / 2, 4));
  const auto never = [](const pm::strace::SoughtWord&, const char*) { return false; };
  for (std::size_t drop = 0; drop <= 1; ++drop) {
    std::vector<pm::strace::SoughtWord> sought;
    bool wanted = false;
    for (std::size_t i = 0; i + drop < words.size(); ++i) {
      sought.push_back(pm::strace::sought(words[i]));
      wanted |= all.find(words[i]) != std::string_view::npos;
    }
    std::uint64_t newlines = 0;
    if (pm::strace::any_word_in(begin, end, all.size(), sought, never, newlines) != wanted)
      __builtin_trap();
    const auto lines = static_cast<std::uint64_t>(std::count(begin, end, '\n'));
    if (!wanted && newlines != lines) __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pm::strace;
  if (size == 0) return 0;
  const auto* const text = reinterpret_cast<const char*>(data);
  search(text, text + size);
  take_apart({text, size});
  const std::string padded = std::string(text, size) + std::string(kPadding, '\0');
  const std::size_t last = padded.rfind('\n', size - 1) + 1;  // 0 without a line's end
  ring_use(padded.data(), padded.data() + last, padded.data() + size);
  LogOptions options;
  options.block_bytes = std::size_t{16} << (data[0] % 12);
  options.threads = 1;
  Query query;
  query.errors = {"ENOSPC", "ENOENT"};
  if (data[0] & 0x20) {
    query = {};
    query.path = "/*";
    query.slower = 1000;
  }
  options.wanted.queries = {query};
  options.wanted.statistics = (data[0] & 0x40) != 0;
  options.wanted.uses = (data[0] & 0x80) != 0;
  options.tracker.statistics = options.wanted.statistics;
  options.tracker.annotations = !options.wanted.uses;
  options.tracker.infer_sigbus = true;
  options.tracker.signals = {"SIGKILL"};
  const auto file = [data](std::size_t from, std::size_t to, std::uint32_t pid) {
    return fuzz::log_of(data + from, to - from, pid);
  };
  try {
    read_log(file(1, size, 0), options);
    std::vector<LogFile> files;
    files.push_back(file(1, size / 2 + 1, 100));
    files.push_back(file(size / 2 + 1, size, 101));
    read_logs(std::move(files), options);
  } catch (const pm::EvidenceError&) {
  }
  return 0;
}
