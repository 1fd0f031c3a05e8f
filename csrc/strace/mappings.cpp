// Files that are mapped: what a SIGBUS is about.
#include "strace/task.h"
#include "strace/tracker.h"

namespace pm::strace {

const Mappings& Memory::mappings() const noexcept {
  static const Mappings nothing;
  return held_ ? held_->mappings : nothing;
}

Mappings& Memory::own() {
  if (!held_) {
    held_ = std::make_shared<Held>(descriptions_);
  } else if (held_.use_count() > 1) {
    // A log of forks can ask for more copies than memory holds: then the child's are not known.
    const bool may = descriptions_->may_copy(held_->mappings.size());
    held_ = may ? std::make_shared<Held>(*held_) : std::make_shared<Held>(descriptions_);
  }
  return held_->mappings;
}

Memory::Held::Held(const Held& other) : mappings(other.mappings), descriptions(other.descriptions) {
  for (const auto& [start, mapping] : mappings) descriptions->use(mapping.description);
}

Memory::Held::~Held() {
  for (const auto& [start, mapping] : mappings) descriptions->release(mapping.description);
}

void Tracker::unmapped(Task& task, std::uint64_t start, std::uint64_t length) {
  const std::uint64_t end = start + length < start ? ~std::uint64_t{0} : start + length;
  const Mappings& all = task.memory->mappings();
  const auto first = all.lower_bound(start);
  const bool reaches_in = first != all.begin() && std::prev(first)->second.end > start;
  if (!reaches_in && (first == all.end() || first->first >= end)) return;
  auto& mappings = task.memory->own();
  auto at = mappings.lower_bound(start);
  if (at != mappings.begin()) {
    const auto before = std::prev(at);
    if (before->second.end > start) {
      if (before->second.end > end) {  // a hole: the rest is a mapping of its own
        descriptions_.use(before->second.description);
        mappings[end] = before->second;
      }
      before->second.end = start;
    }
  }
  while (at != mappings.end() && at->first < end) {
    if (at->second.end > end) {
      const Mapping rest = at->second;
      mappings.erase(at);
      mappings[end] = rest;
      return;
    }
    descriptions_.release(at->second.description);
    at = mappings.erase(at);
  }
}

void Tracker::mapped(Task& task, const Event& event) {
  const std::string_view all = view(event.arguments, event.arguments_end);
  const auto number_at = [&](unsigned index) {
    return static_cast<std::uint64_t>(number_in(argument_at(all, index)));
  };
  const auto start = static_cast<std::uint64_t>(event.result.value);
  if (event.op == Op::mremap) {
    const std::uint64_t from = number_at(0);
    const auto found = task.memory->mappings().find(from);
    if (found == task.memory->mappings().end()) return;
    const std::int32_t one = found->second.description;
    descriptions_.use(one);
    unmapped(task, from, number_at(1));
    unmapped(task, start, number_at(2));
    task.memory->own()[start] = {start + number_at(2), one};
    return;
  }
  const std::int32_t one = event.a < 0 ? kNone : task.table->at(event.a);
  if (one == kNone && task.memory->mappings().empty()) return;
  const std::uint64_t length = event.b >= 0 ? static_cast<std::uint64_t>(event.b) : number_at(1);
  unmapped(task, start, length);
  if (one == kNone || task.memory->mappings().size() > 100'000) return;
  descriptions_.use(one);
  task.memory->own()[start] = {start + length, one};
}

}  // namespace pm::strace
