// Any bytes as a log: lines, calls, descriptors, statistics, and the check against annotations. The
// first byte says how small the blocks are, so that lines fall across their ends.
#include "base/error.h"
#include "fuzz/strace_bytes.h"
#include "strace/log.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pm::strace;
  if (size == 0) return 0;
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
