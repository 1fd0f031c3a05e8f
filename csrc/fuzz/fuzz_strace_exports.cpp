// Any bytes as a log, given to every export at once: rows, CSV, JSON, stacks, a timeline. The first
// byte says how small the blocks are, and whether the file is one of -ff.
#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"
#include "fuzz/strace_bytes.h"
#include "strace/call_writer.h"
#include "strace/columns.h"
#include "strace/folded.h"
#include "strace/log.h"
#include "strace/timeline.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pm::strace;
  if (size == 0) return 0;
  static const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  const auto name = [](const std::vector<std::string>& argv) {
    return argv.empty() ? std::string() : argv[0];
  };
  const auto words = [](const std::vector<std::string>& argv) { return argv; };
  const Mask mask = [](std::string_view text) { return std::string(text.substr(0, 20)); };
  Columns columns(mask, 16, [](Columns& full) { full.take_rows(); });
  Columns all(nullptr);
  CallWriter csv(nowhere, CallForm::csv, mask, true);
  CallWriter ndjson(nowhere, CallForm::ndjson, nullptr, true);
  Folded folded(nowhere, mask, name);
  TimelineOptions every;
  every.all = true;
  Timeline timeline(nowhere, mask, name, words, every);
  std::vector<Sink*> sinks{&columns, &all, &csv, &ndjson, &folded, &timeline};
  for (unsigned log = 0; log < 2; ++log) {  // the second one meets what the first has left
    Feed feed({"log", {"one", "two"}}, sinks, [](const std::vector<std::string>&) {});
    LogOptions options;
    options.block_bytes = std::size_t{16} << (data[0] % 12);
    options.threads = 1;
    options.wanted.every = true;
    options.wanted.statistics = (data[0] & 0x40) != 0;
    options.tracker.statistics = options.wanted.statistics;
    options.tracker.observer = &feed;
    const auto file = [data](std::size_t from, std::size_t to, std::uint32_t pid) {
      return fuzz::log_of(data + from, to - from, pid);
    };
    try {
      if (data[0] & 0x80) {
        std::vector<LogFile> files;
        files.push_back(file(1, size / 2 + 1, 100));
        files.push_back(file(size / 2 + 1, size, 101));
        read_logs(std::move(files), options);
      } else {
        read_log(file(1, size, 0), options);
      }
    } catch (const pm::EvidenceError&) {
    }
  }
  for (Sink* const sink : sinks) sink->close();
  (void)timeline.head();
  return 0;
}
