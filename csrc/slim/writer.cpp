#include "slim/writer.h"

#include <elf.h>
#include <sys/mman.h>

#include <algorithm>

#include "slim/layout.h"
#include "slim/output.h"

namespace pm::slim {
namespace {

using elfcore::Core;
using elfcore::Segment;
using elfcore::SlimInfo;

// Two stretches that are nearer than this are written as one: a program header costs readers more.
constexpr std::uint64_t kGap = 2 * kPage;
constexpr std::size_t kWriteBlock = 1 << 20;

// The part of each range that the core has, by address. Stretches are joined within one mapping,
// also over the seams at which a core from a stream was cut into pieces: what is written is the
// same then.
std::vector<Run> find_runs(const Core& core, const std::vector<Range>& ranges) {
  std::vector<Run> runs;
  std::size_t next = 0;
  std::size_t first = 0;  // run of what is in one piece with this one
  const Segment* mapping = nullptr;
  std::uint64_t until = 0;
  for (const Segment& piece : core.pieces()) {
    const std::uint64_t end = piece.start + piece.present;
    const Segment* const here = core.segment_at(piece.start);
    if (here == nullptr || here != mapping || piece.start != until) first = runs.size();
    mapping = here;
    until = end;
    while (next < ranges.size() && ranges[next].end <= piece.start) ++next;
    for (std::size_t i = next; i < ranges.size() && ranges[i].start < end; ++i) {
      const Range part{std::max(ranges[i].start, piece.start), std::min(ranges[i].end, end)};
      if (part.start >= part.end) continue;
      if (runs.size() > first && part.start - runs.back().memory.end <= kGap) {
        runs.back().memory.end = part.end;
      } else {
        runs.push_back({part, 0});
      }
    }
  }
  return runs;
}

// The core is mapped with random-access advice: without asking ahead, each page is a disk read.
void read_ahead(Bytes bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data()) & ~(kPage - 1);
  const auto end = reinterpret_cast<std::uintptr_t>(bytes.data()) + bytes.size();
  if (!bytes.empty()) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_WILLNEED);
}

void copy_run(const Core& core, const Run& run, Output& output) {
  std::uint64_t at = run.memory.start;
  while (at < run.memory.end) {
    const Bytes part =
        clip(core.dumped_at(at), 0, std::min<std::uint64_t>(run.memory.end - at, kWriteBlock));
    if (part.empty()) return;  // stays a hole; only where a fetcher fails after it succeeded
    output.write_sparse(part, run.offset + (at - run.memory.start));
    at += part.size();
  }
}

}  // namespace

SlimInfo describe_source(const Core& core) {
  SlimInfo info;
  if (core.slim()) {
    info = *core.slim();
    info.spooled = false;
    return info;
  }
  info.source_bytes = core.bytes().size();
  info.expected_bytes = core.expected_size();
  info.segments.reserve(core.segments().size());
  for (const Segment& segment : core.segments()) {
    info.segments.push_back(
        {segment.start, segment.size, segment.dumped, segment.present, segment.flags});
  }
  return info;
}

Written write_core(const Core& core, const std::vector<Range>& ranges, const SlimInfo& info,
                   int fd) {
  std::vector<Run> runs = find_runs(core, ranges);
  Layout layout(core, info, runs);
  Written written;
  std::uint64_t at = page_up(sizeof(Elf64_Ehdr) + layout.size());
  for (Run& run : runs) {
    const std::uint64_t skew = run.memory.start % kPage;  // offset and address agree in a page
    run.offset = at + skew;
    at = page_up(run.offset + (run.memory.end - run.memory.start));
    written.kept_bytes += run.memory.end - run.memory.start;
  }
  Output output(fd);
  const std::vector<std::uint8_t> tables = layout.tables(runs, sizeof(Elf64_Ehdr), at);
  const Elf64_Ehdr header = layout.header(sizeof(Elf64_Ehdr));
  output.write({reinterpret_cast<const std::uint8_t*>(&header), sizeof header}, 0);
  output.write(tables, sizeof header);
  for (const Run& run : runs) {
    if (!core.watch()) {
      read_ahead(clip(core.dumped_at(run.memory.start), 0, run.memory.end - run.memory.start));
    }
  }
  for (const Run& run : runs) copy_run(core, run, output);
  written.file_bytes =
      runs.empty() ? sizeof header + tables.size()
                   : runs.back().offset + (runs.back().memory.end - runs.back().memory.start);
  output.finish(written.file_bytes);
  written.pieces = runs.size();
  return written;
}

}  // namespace pm::slim
