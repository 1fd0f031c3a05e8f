#include "strace/log.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "strace/relative.h"

namespace pm::strace {
namespace {

void add_other(std::vector<std::pair<std::string, CallCount>>& all, const std::string& name,
               const CallCount& count) {
  auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& row) { return row.first == name; });
  if (found == all.end()) {
    if (all.size() >= 1000) return;
    all.emplace_back(name, CallCount{});
    found = all.end() - 1;
  }
  found->second.calls += count.calls;
  found->second.errors += count.errors;
  found->second.nanoseconds += count.nanoseconds;
}

void add_counts(Log& log, const Extract& block, std::uint32_t file, std::uint64_t first_line) {
  log.counts.add(block.counts);
  if (log.first_unparsed.empty() && !block.first_unparsed.empty()) {
    log.first_unparsed = block.first_unparsed;
    log.first_unparsed_place = {file, first_line + block.first_unparsed_number};
  }
  block.tallies.calls.each([&](const Tally& tally) {
    if (log.statistics.size() <= tally.call) log.statistics.resize(call_count());
    log.statistics[tally.call].calls += tally.calls;
    log.statistics[tally.call].errors += tally.errors;
    log.statistics[tally.call].nanoseconds += tally.nanoseconds;
  });
  for (const auto& [name, count] : block.other_calls) add_other(log.other_calls, name, count);
}

// Blocks are read by whoever is free, extracted at once, and replayed in their order, each when
// those that follow it are extracted too: so a fork is known to return before its child is seen.
class Pipeline {
 public:
  Pipeline(LogFile file, const LogOptions& options, Log& log)
      : file_(std::move(file)),
        options_(options),
        log_(log),
        stamps_(file_.pull),
        reader_([this](char* to, std::size_t size) { return stamps_.pull(to, size); },
                options.block_bytes) {}

  void run() {
    const unsigned count = std::max(1U, options_.threads);
    std::vector<std::thread> others;
    for (unsigned i = 1; i < count; ++i) others.emplace_back([this] { work(); });
    work();
    for (std::thread& other : others) other.join();
    if (failure_) std::rethrow_exception(failure_);
    log_.file_bytes.push_back(stamps_.bytes());
    log_.cut_lines += reader_.cut_lines();
    log_.counts.relative |= log_.summed = stamps_.summed();
  }

 private:
  // Blocks that are extracted before the one in front of them is replayed, and those between the
  // first not replayed and the last read.
  std::uint64_t ahead() const noexcept {
    return std::clamp<std::uint64_t>(BlockReader::kBlockBytes / options_.block_bytes, 1, 4);
  }
  std::uint64_t window() const noexcept { return 8 + 4 * ahead(); }

  void work() {
    try {
      for (;;) {
        std::unique_ptr<Block> block = take();
        if (!block) break;
        extract(block->data.get(), block->data.get() + block->size, options_.wanted,
                block->extract);
        std::unique_lock lock(ready_mutex_);
        ready_.emplace_back(std::move(block));
        lock.unlock();
        replay_ready();
      }
      replay_ready();
    } catch (...) {
      const std::lock_guard lock(ready_mutex_);
      if (!failure_) failure_ = std::current_exception();
      stopped_ = true;
      room_.notify_all();
    }
  }

  std::unique_ptr<Block> take() {
    const std::lock_guard reading(read_mutex_);
    std::unique_ptr<Block> block;
    {
      std::unique_lock lock(ready_mutex_);
      room_.wait(lock, [this] { return stopped_ || read_ < replayed_ + window(); });
      if (stopped_ || ended_) return nullptr;
      if (!spare_.empty()) {
        block = std::move(spare_.back());
        spare_.pop_back();
      }
    }
    if (!block) block = std::make_unique<Block>();
    const bool more = reader_.next(*block);
    const std::lock_guard lock(ready_mutex_);
    if (more) {
      ++read_;
      return block;
    }
    ended_ = true;
    return nullptr;
  }

  // Whoever finds it free does it; the others go on with the next block.
  void replay_ready() {
    std::unique_lock lock(ready_mutex_);
    if (replaying_) return;
    replaying_ = true;
    for (;;) {
      const auto of = [&](std::uint64_t index) {
        return std::find_if(ready_.begin(), ready_.end(),
                            [&](const auto& block) { return block->index == index; });
      };
      if (stopped_ || (ended_ && replayed_ == read_)) break;
      const std::uint64_t last = replayed_ + ahead();
      while (known_ <= last && of(known_) != ready_.end()) fresh_.push_back(of(known_++)->get());
      if (known_ <= last && !(ended_ && known_ == read_)) break;
      Block& block = **of(replayed_);
      lock.unlock();
      Tracker& tracker = *log_.tracker;
      for (const Block* const coming : fresh_) tracker.processes().announce(coming->extract.forks);
      fresh_.clear();
      tracker.replay(block.extract, {0, line_, file_.pid});
      add_counts(log_, block.extract, 0, line_);
      line_ += block.extract.counts.lines;
      lock.lock();
      const auto done = of(replayed_);
      spare_.push_back(std::move(*done));
      ready_.erase(done);
      ++replayed_;
      room_.notify_all();
    }
    replaying_ = false;
  }

  LogFile file_;
  const LogOptions& options_;
  Log& log_;
  RelativeStamps stamps_;
  BlockReader reader_;
  std::mutex read_mutex_;
  std::mutex ready_mutex_;
  std::condition_variable room_;
  std::vector<std::unique_ptr<Block>> ready_;
  std::vector<std::unique_ptr<Block>> spare_;
  std::uint64_t read_ = 0;
  std::uint64_t replayed_ = 0;
  std::uint64_t known_ = 0;          // before it, forks are announced, or are about to be:
  std::vector<const Block*> fresh_;  // those of these
  std::uint64_t line_ = 1;
  bool ended_ = false;
  bool stopped_ = false;
  bool replaying_ = false;
  std::exception_ptr failure_;
};

// One file of -ff on its way: a block at a time.
struct Stream {
  LogFile file;
  BlockReader reader;
  Block block;
  std::size_t next = 0;  // event
  std::uint64_t first_line = 1;
  std::uint64_t lines_after = 0;
  double time = -1;  // of the next event
  bool ended = false;
  bool executes = false;  // its first call is execve()
  std::uint32_t index = 0;

  Stream(LogFile of, std::size_t block_bytes)
      : file(std::move(of)), reader(file.pull, block_bytes) {}
};

class Merge {
 public:
  Merge(std::vector<LogFile> files, const LogOptions& options, Log& log)
      : options_(options), log_(log) {
    const std::size_t bytes = std::clamp<std::size_t>((std::size_t{64} << 20) / (files.size() + 1),
                                                      std::size_t{32} << 10, options.block_bytes);
    for (LogFile& file : files) {
      streams_.emplace_back(std::move(file), bytes);
      streams_.back().index = static_cast<std::uint32_t>(streams_.size() - 1);
    }
  }

  void run() {
    for (Stream& stream : streams_) read_block(stream);
    log_.by_time = log_.counts.times;
    // Without times a task waits until its fork is seen; the files are then gone through in order.
    while (Stream* const stream = choose()) step(*stream);
    for (Stream& stream : streams_) {
      log_.file_bytes.push_back(stream.reader.bytes());
      log_.cut_lines += stream.reader.cut_lines();
    }
  }

 private:
  void read_block(Stream& stream) {
    for (;;) {
      if (stream.lines_after) {
        log_.tracker->end_block(stream.block.extract, origin_of(stream));
      }
      stream.first_line += stream.lines_after;
      stream.lines_after = 0;
      stream.next = 0;
      if (!stream.reader.next(stream.block)) {
        stream.ended = true;
        return;
      }
      const char* const data = stream.block.data.get();
      extract(data, data + stream.block.size, options_.wanted, stream.block.extract);
      stream.lines_after = stream.block.extract.counts.lines;
      add_counts(log_, stream.block.extract, stream.index, stream.first_line);
      const auto& events = stream.block.extract.events;
      if (stream.first_line == 1 && !events.empty()) {
        stream.executes = events[0].op == Op::exec && events[0].number == 0;
      }
      if (!stream.block.extract.events.empty()) {
        time_next(stream);
        return;
      }
    }
  }

  static BlockOrigin origin_of(const Stream& stream) {
    return {stream.index, stream.first_line, stream.file.pid};
  }

  void time_next(Stream& stream) const {
    const Event& event = stream.block.extract.events[stream.next];
    double time = seconds_of(read_leader(event.line, event.end).time);
    // -tt has no date: past midnight it starts again.
    if (time >= 0 && stream.time > time + 43'200 && !log_.counts.epochs) time += 86'400;
    // The stamp is that of the beginning. What takes effect at the end waits for it, as far as -T
    // tells when that is; a fork takes its snapshot when it begins.
    const bool at_end = event.op != Op::none && event.op != Op::fork && event.op != Op::close &&
                        event.op != Op::close_range && event.op != Op::sendmsg &&
                        event.op != Op::connect && event.op != Op::bind && event.op != Op::kill &&
                        event.op != Op::read && event.op != Op::write;
    if (at_end) time += std::max(0.0, seconds_of(event.result.seconds));
    if (time >= 0) stream.time = time;
  }

  Stream* choose() {
    Stream* best = nullptr;
    if (log_.by_time) {
      for (Stream& stream : streams_) {
        if (!stream.ended && (!best || stream.time < best->time)) best = &stream;
      }
      return best;
    }
    // A task whose fork has been seen has its table by then. Without one, the task that began with
    // execve() is the first; pids may have wrapped around.
    const auto rank = [this](const Stream& stream) {
      const int order = log_.tracker->processes().find(stream.file.pid) ? 0
                        : stream.executes                               ? 1
                                                                        : 2;
      return std::pair(order, stream.file.pid);
    };
    for (Stream& stream : streams_) {
      if (!stream.ended && (!best || rank(stream) < rank(*best))) best = &stream;
    }
    return best;
  }

  void step(Stream& stream) {
    const Event& event = stream.block.extract.events[stream.next];
    log_.tracker->apply(event, origin_of(stream));
    if (++stream.next < stream.block.extract.events.size()) {
      time_next(stream);
    } else {
      read_block(stream);
    }
  }

  const LogOptions& options_;
  Log& log_;
  std::deque<Stream> streams_;
};

Log empty_log(const LogOptions& options) {
  Log log;
  log.tracker = std::make_unique<Tracker>(options.tracker);
  return log;
}

void finish(Log& log) {
  log.tracker->finish();
  const auto& late = log.tracker->summary().late_nanoseconds();
  if (log.statistics.size() < late.size()) log.statistics.resize(late.size());
  for (std::size_t i = 0; i < late.size(); ++i) log.statistics[i].nanoseconds += late[i];
}

// What follows from what is asked: the tracker holds the same queries against whole calls.
LogOptions prepared(const LogOptions& options) {
  LogOptions made = options;
  made.wanted.prepare();
  made.tracker.queries = made.wanted.queries;
  if (made.block_bytes == 0) {
    // Small blocks stay in a core's second cache (512 KiB on Zen) from when they are read until
    // they are extracted; large ones hold more calls whole, which is what the summary counts.
    const bool whole = made.wanted.statistics || made.wanted.every;
    made.block_bytes = whole ? BlockReader::kBlockBytes : BlockReader::kBlockBytes / 4;
  }
  return made;
}

}  // namespace

Log read_log(LogFile file, const LogOptions& wished) {
  const LogOptions options = prepared(wished);
  Log log = empty_log(options);
  Pipeline(std::move(file), options, log).run();
  finish(log);
  return log;
}

Log read_logs(std::vector<LogFile> files, const LogOptions& wished) {
  if (files.size() == 1) return read_log(std::move(files[0]), wished);
  LogOptions options = prepared(wished);
  options.tracker.by_entry = true;
  Log log = empty_log(options);
  Merge(std::move(files), options, log).run();
  finish(log);
  return log;
}

}  // namespace pm::strace
