// Any bytes as a core that is made small: from a file, and as a stream that may end anywhere. The
// slim core must read as the original does where it has memory, and slimming it changes nothing.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <vector>

#include "cpython/python.h"
#include "elfcore/command_line.h"
#include "elfcore/core.h"
#include "elfcore/cpp_exception.h"
#include "elfcore/environment.h"
#include "slim/head.h"
#include "slim/selection.h"
#include "slim/spool.h"
#include "slim/writer.h"
#include "unwind/unwinder.h"

namespace {

using pm::Bytes;
using pm::elfcore::Core;
using pm::elfcore::Memory;
using pm::elfcore::Modules;
using pm::elfcore::Segment;

// A folder that does not exist: what is fuzzed is the core, not the files of this machine.
const pm::elfcore::ModuleOptions kNoFiles{"", "/nonexistent"};

void check(bool holds) {
  if (!holds) std::abort();
}

class TemporaryFile {
 public:
  TemporaryFile() : fd_(memfd_create("fuzz", 0)) { check(fd_ >= 0); }
  ~TemporaryFile() { close(fd_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  int fd() const { return fd_; }
  std::vector<std::uint8_t> content() const {
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(lseek(fd_, 0, SEEK_END)));
    check(pread(fd_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
    return bytes;
  }

 private:
  int fd_;
};

void walk(Core& core) {
  const Modules modules(core, kNoFiles);
  const Memory memory(core, modules);
  pm::unwind::Unwinder unwinder(memory);
  std::size_t left = 8;
  for (const auto& thread : core.threads()) {
    if (left-- == 0) break;
    unwinder.unwind(thread, 64);
  }
  pm::cpython::read_python(memory, {});
  pm::elfcore::read_command_line(core);
  pm::elfcore::read_environment(memory, core.problems());
  pm::elfcore::find_cpp_exceptions(memory, core.problems());
}

std::vector<std::uint8_t> slimmed(Core& core) {
  const Modules modules(core, kNoFiles);
  const auto kept = pm::slim::select(core, modules, walk);
  const TemporaryFile file;
  const auto written =
      pm::slim::write_core(core, kept.ranges, pm::slim::describe_source(core), file.fd());
  std::vector<std::uint8_t> bytes = file.content();
  check(bytes.size() == written.file_bytes);
  return bytes;
}

bool same(const Segment& a, const Segment& b) {
  return a.start == b.start && a.size == b.size && a.dumped == b.dumped && a.present == b.present &&
         a.flags == b.flags;
}

void check_reads_like(const Core& slim, const Core& original) {
  check(slim.threads().size() == original.threads().size());
  check(slim.files().size() == original.files().size());
  check(slim.signal().has_value() == original.signal().has_value());
  if (!slim.slim()) return;  // its notes are damaged before ours
  check(std::equal(slim.segments().begin(), slim.segments().end(), original.segments().begin(),
                   original.segments().end(), same));
  for (const Segment& piece : slim.pieces()) {
    const Bytes here = pm::clip(slim.dumped_at(piece.start), 0, piece.present);
    const Bytes there = pm::clip(original.dumped_at(piece.start), 0, piece.present);
    check(std::equal(here.begin(), here.end(), there.begin(), there.end()));
  }
}

void from_file(Bytes bytes) {
  const auto original = Core::parse(bytes);
  const std::vector<std::uint8_t> first = slimmed(*original);
  const auto slim = Core::parse(first);
  // Read anew: to slim it, files were found that no note names.
  check_reads_like(*slim, *Core::parse(bytes));
  if (slim->slim()) check(slimmed(*slim) == first);
}

void from_stream(Bytes bytes) {
  const TemporaryFile stream, spool;
  check(write(stream.fd(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  check(lseek(stream.fd(), 0, SEEK_SET) == 0);
  const pm::slim::Head head = pm::slim::read_head(stream.fd(), {});
  const auto result = pm::slim::spool(head, stream.fd(), spool.fd(), 64 << 10);
  check(result.stream_bytes == bytes.size());
  const std::vector<std::uint8_t> content = spool.content();
  slimmed(*Core::parse(content));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const auto way : {from_file, from_stream}) {
    try {
      way({data, size});
    } catch (const pm::EvidenceError&) {
    }
  }
  return 0;
}
