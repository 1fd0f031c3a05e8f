#include "slim/spool.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <vector>

#include "slim/layout.h"
#include "slim/output.h"
#include "slim/plan.h"
#include "slim/writer.h"

namespace pm::slim {
namespace {

constexpr std::size_t kPipeBlock = 1 << 20;  // what a pipe can be made to hold
constexpr std::uint64_t kFirst = kPage;      // the ELF header alone lies before the memory

// The stream with what was read of it before.
class Stream {
 public:
  Stream(Bytes head, int fd)
      : head_(head), fd_(fd), buffer_(std::make_unique_for_overwrite<std::uint8_t[]>(kPipeBlock)) {}

  std::uint64_t at() const noexcept { return at_; }
  bool ended() const noexcept { return ended_; }
  // The errno of a read that failed; 0: the stream ended.
  int error() const noexcept { return error_; }

  // The next bytes, at most up to the offset `limit`; none at the end.
  Bytes next(std::uint64_t limit) {
    if (at_ >= limit || ended_) return {};
    const std::size_t size = std::min<std::uint64_t>(limit - at_, kPipeBlock);
    const Bytes before = clip(head_, at_, size);
    const Bytes part = before.size() == size ? before : read_block(before, size);
    at_ += part.size();
    return part;
  }

 private:
  // Whole blocks as far as the stream goes, however its pieces come: pages of zeros are found in
  // them.
  Bytes read_block(Bytes before, std::size_t size) {
    std::copy(before.begin(), before.end(), buffer_.get());
    std::size_t have = before.size();
    while (have < size) {
      const ssize_t count = read(fd_, buffer_.get() + have, size - have);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) {
        ended_ = true;
        error_ = count < 0 ? errno : 0;
        break;
      }
      have += static_cast<std::size_t>(count);
    }
    return {buffer_.get(), have};
  }

  Bytes head_;
  int fd_;
  std::unique_ptr<std::uint8_t[]> buffer_;
  std::uint64_t at_ = 0;
  bool ended_ = false;
  int error_ = 0;
};

struct Stored {
  Run run;
  bool needed = false;
};

class Spooler {
 public:
  Spooler(const Head& head, int in, int out) : head_(head), stream_(head.bytes, in), output_(out) {}

  Spooled run(std::uint64_t room);

 private:
  void skip_to(std::uint64_t offset);
  void store(const Planned& part);
  void put(Bytes bytes, std::uint64_t offset);
  void give_up_others();
  void tell_end();
  void write_tables();
  void copy_all();
  elfcore::SlimInfo describe() const;

  const Head& head_;
  Stream stream_;
  Output output_;
  Spooled result_;
  std::vector<Stored> stored_;
  std::uint64_t end_ = kFirst;  // of what is written
  bool full_ = false;           // only what is needed for certain is still kept
};

void Spooler::skip_to(std::uint64_t offset) {
  while (stream_.at() < offset && !stream_.ended()) stream_.next(offset);
}

void Spooler::store(const Planned& part) {
  skip_to(part.offset);
  const std::uint64_t size = part.memory.end - part.memory.start;
  if (stream_.at() > part.offset || stream_.ended()) return;  // overlapping parts of a crafted file
  if (full_ && !part.needed) {
    result_.lost_bytes += size;
    return;
  }
  Stored row{{{part.memory.start, part.memory.start}, end_ + part.memory.start % kPage},
             part.needed};
  stored_.push_back(row);
  std::uint64_t done = 0;
  while (done < size) {
    const Bytes bytes = stream_.next(part.offset + size);
    if (bytes.empty()) break;
    if (full_ && !part.needed) {
      result_.lost_bytes += size - done;  // its run is gone already
      return;
    }
    put(bytes, row.run.offset + done);
    if (full_ && !part.needed) {
      result_.lost_bytes += size - done;
      return;
    }
    done += bytes.size();
    stored_.back().run.memory.end += bytes.size();
  }
  if (done == 0) {
    stored_.pop_back();
    return;
  }
  end_ = (row.run.offset + done + kPage - 1) & ~(kPage - 1);
}

void Spooler::put(Bytes bytes, std::uint64_t offset) {
  try {
    output_.write_sparse(bytes, offset);
  } catch (const std::system_error& error) {
    const int number = error.code().value();
    if (full_ || (number != ENOSPC && number != EDQUOT && number != EFBIG)) throw;
    give_up_others();
    if (!stored_.empty() && stored_.back().needed) output_.write_sparse(bytes, offset);
  }
}

// The disk is full: what may be of use makes room for what is needed for certain, which is at the
// end of the stream for the most part (the main stack, the C library's data).
void Spooler::give_up_others() {
  full_ = true;
  std::uint64_t given = 0;
  std::vector<Stored> kept;
  for (const Stored& row : stored_) {
    if (row.needed) {
      kept.push_back(row);
      continue;
    }
    const std::uint64_t size = row.run.memory.end - row.run.memory.start;
    // Of the last one a block may be half written, which is not counted yet.
    output_.punch(row.run.offset, size + (&row == &stored_.back() ? kPipeBlock : 0));
    given += size;
  }
  stored_ = std::move(kept);
  result_.lost_bytes += given;
  result_.problems.add("temporary file",
                       "no space left for it after " + std::to_string(end_ >> 20) +
                           " MiB; only stacks and the data of modules are kept",
                       "name a folder with more room: --temp-dir DIR");
}

void Spooler::tell_end() {
  if (stream_.error() != 0) {
    result_.problems.add("standard input", std::string("reading failed after ") +
                                               std::to_string(stream_.at()) +
                                               " bytes: " + std::strerror(stream_.error()));
  }
  result_.stream_bytes = stream_.at();
  if (result_.stream_bytes < head_.expected_bytes) {
    result_.problems.add("standard input",
                         "the core was cut off: " + std::to_string(result_.stream_bytes) + " of " +
                             std::to_string(head_.expected_bytes) + " bytes came",
                         "memory at high addresses (main stack, libc) is lost first");
  }
}

elfcore::SlimInfo Spooler::describe() const {
  elfcore::SlimInfo info = describe_source(*head_.core);
  info.spooled = !head_.core->slim() || head_.core->slim()->spooled;
  info.lost_bytes += result_.lost_bytes;
  if (head_.core->slim()) return info;
  info.source_bytes = result_.stream_bytes;
  info.expected_bytes = head_.expected_bytes;
  const auto& segments = head_.core->segments();
  for (std::size_t i = 0; i < info.segments.size(); ++i) {
    const std::uint64_t offset = segments[i].offset;
    const std::uint64_t came = result_.stream_bytes > offset ? result_.stream_bytes - offset : 0;
    info.segments[i].present = std::min(info.segments[i].dumped, came);
  }
  return info;
}

// Behind the memory: their size is known only now.
void Spooler::write_tables() {
  std::vector<Run> runs;
  for (const Stored& row : stored_) runs.push_back(row.run);
  std::sort(runs.begin(), runs.end(),
            [](const Run& a, const Run& b) { return a.memory.start < b.memory.start; });
  const Layout layout(*head_.core, describe(), runs);
  const std::vector<std::uint8_t> tables = layout.tables(runs, end_, end_);
  const Elf64_Ehdr header = layout.header(end_);
  const Bytes header_bytes{reinterpret_cast<const std::uint8_t*>(&header), sizeof header};
  try {
    output_.write(tables, end_);
    output_.write(header_bytes, 0);
  } catch (const std::system_error&) {
    if (full_) throw;
    give_up_others();
    write_tables();
  }
}

// A writer that puts the notes behind the memory: which of it are stacks cannot be known in time.
void Spooler::copy_all() {
  std::uint64_t at = 0;
  for (Bytes bytes = stream_.next(UINT64_MAX); !bytes.empty(); bytes = stream_.next(UINT64_MAX)) {
    output_.write_sparse(bytes, at);
    at = stream_.at();
  }
  output_.finish(at);
}

Spooled Spooler::run(std::uint64_t room) {
  if (head_.notes_late) {
    copy_all();
    tell_end();
    return result_;
  }
  const Plan plan = make_plan(*head_.core, room);
  result_.lost_bytes = plan.left_out;
  for (const Planned& part : plan.parts) {
    if (stream_.ended()) break;
    store(part);
  }
  skip_to(UINT64_MAX);
  tell_end();
  write_tables();
  return result_;
}

}  // namespace

Spooled spool(const Head& head, int in, int out, std::uint64_t room) {
  return Spooler(head, in, out).run(room);
}

}  // namespace pm::slim
