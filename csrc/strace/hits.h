// Calls and signals that were asked for, and calls that failed, each with what it was about.
#pragma once

#include <random>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "strace/hash_index.h"
#include "strace/summary.h"

namespace pm::strace {

class Hits {
 public:
  Hits(const TrackerOptions& options, const Processes& processes, FileTables& files,
       Summary& summary)
      : options_(options), processes_(processes), files_(files), summary_(summary) {}

  // A call for which a query may hold.
  void may_be_asked(const Task& task, const Event& event, const BlockOrigin& origin);
  void failed(Task& task, const Event& event, const BlockOrigin& origin);
  // Takes each request of a call that failed for itself: they may be of several files, and have
  // failed for several reasons.
  void failed_within(Task& task, const Event& event, const BlockOrigin& origin);
  // A match that is no call: a signal, or the end that it made.
  void record_signal(const Task& task, const Event& event, Place place, std::string_view name,
                     Target target, bool inferred);
  void slow(const Task& task, const Event& event, const BlockOrigin& origin);

  const std::vector<Match>& matches() const noexcept { return matches_; }
  std::uint64_t match_count() const noexcept { return match_count_; }
  const std::vector<Failure>& failures() const noexcept { return failures_; }

 private:
  Match match_of(const Task& task, const Event& event, const BlockOrigin& origin);
  bool asked(const Match& match, const Event& event) const;

  const TrackerOptions& options_;
  const Processes& processes_;
  FileTables& files_;
  Summary& summary_;
  std::vector<Match> matches_;
  std::uint64_t match_count_ = 0;
  std::unordered_map<std::string, std::size_t> kept_;  // matches by errno and call
  // Begins each hash, so that no log can be written whose failures all have the same one.
  const std::uint64_t seed_ = std::random_device{}();
  HashIndex failure_index_;
  std::vector<Failure> failures_;
};

}  // namespace pm::strace
