#include "strace/relative.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "strace/line.h"

namespace pm::strace {
namespace {

constexpr std::size_t kPiece = std::size_t{256} << 10;
constexpr std::size_t kFirstPiece = 4096;  // a log may be short; they grow as more comes
constexpr std::size_t kLongestLeader = 256;
constexpr unsigned kLinesLookedAt = 40;
constexpr double kLongestPause = 1e8;  // seconds; a log may say anything

bool is_relative(const Leader& leader) noexcept {
  return !leader.relative.empty() && leader.time.empty();
}

void append_clock(std::uint64_t nanoseconds, std::string& out) {
  const std::uint64_t seconds = nanoseconds / 1'000'000'000;
  char text[64];
  const int length = std::snprintf(text, sizeof text, "%02llu:%02llu:%02llu.%09llu",
                                   static_cast<unsigned long long>(seconds / 3600),
                                   static_cast<unsigned long long>(seconds / 60 % 60),
                                   static_cast<unsigned long long>(seconds % 60),
                                   static_cast<unsigned long long>(nanoseconds % 1'000'000'000));
  out.append(text, static_cast<std::size_t>(length));
}

}  // namespace

std::size_t RelativeStamps::pull(char* to, std::size_t size) {
  if (kind_ == Kind::unknown) recognise();
  if (taken_ == out_.size() && kind_ == Kind::other) {
    if (out_.capacity()) std::string().swap(out_);
    taken_ = 0;
    const std::size_t got = ended_ ? 0 : pull_(to, size);
    bytes_ += got;
    return got;
  }
  while (taken_ == out_.size()) {
    if (ended_ && in_.empty()) return 0;
    out_.clear();
    taken_ = 0;
    read_more();
    rewrite();
  }
  const std::size_t count = std::min(size, out_.size() - taken_);
  std::memcpy(to, out_.data() + taken_, count);
  taken_ += count;
  return count;
}

void RelativeStamps::read_more() {
  const std::size_t before = in_.size();
  const std::size_t size = std::clamp<std::size_t>(bytes_, kFirstPiece, kPiece);
  in_.resize(before + size);
  const std::size_t got = ended_ ? 0 : pull_(in_.data() + before, size);
  ended_ = got == 0;
  bytes_ += got;
  in_.resize(before + got);
}

// The first stamp tells: strace writes the same leader on every line.
void RelativeStamps::recognise() {
  while (!ended_ && in_.size() < kPiece / 4) read_more();
  const std::size_t size = in_.size();
  in_.append(kPadding, '\0');
  const char* line = in_.data();
  const char* const end = line + size;
  kind_ = Kind::other;
  for (unsigned i = 0; i < kLinesLookedAt && line < end; ++i) {
    const char* const newline = find(line, end, '\n');
    const Leader leader = read_leader(line, newline);
    if (is_relative(leader)) kind_ = Kind::relative;
    if (!leader.time.empty() || kind_ == Kind::relative) break;
    line = newline < end ? newline + 1 : end;
  }
  in_.resize(size);
  if (kind_ == Kind::relative) return;
  out_ = std::move(in_);
  in_ = {};
}

void RelativeStamps::rewrite() {
  const std::size_t size = in_.size();
  in_.append(kPadding, '\0');
  const char* at = in_.data();
  const char* const end = at + size;
  while (at < end) {
    const char* const newline = find(at, end, '\n');
    if (!in_line_) {
      const bool whole = newline < end || static_cast<std::size_t>(end - at) >= kLongestLeader;
      if (!whole && !ended_) break;
      const Leader leader = read_leader(at, newline);
      const double seconds = is_relative(leader) ? seconds_of(leader.relative) : -1;
      if (seconds >= 0 && seconds < kLongestPause) {
        nanoseconds_ += static_cast<std::uint64_t>(std::llround(seconds * 1e9));
        out_.append(at, leader.relative.data());
        append_clock(nanoseconds_, out_);
        at = leader.relative.data() + leader.relative.size();
      }
    }
    in_line_ = newline == end;
    const char* const stop = in_line_ ? end : newline + 1;
    out_.append(at, stop);
    at = stop;
  }
  in_.resize(size);
  in_.erase(0, static_cast<std::size_t>(at - in_.data()));
}

}  // namespace pm::strace
