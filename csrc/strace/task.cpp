#include "strace/task.h"

#include <iterator>

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

void Memory::map(std::uint64_t start, std::uint64_t length, std::int32_t description) {
  own()[start] = {start + length, description};
}

void Memory::unmap(std::uint64_t start, std::uint64_t length) {
  const std::uint64_t end = start + length < start ? ~std::uint64_t{0} : start + length;
  const Mappings& all = mappings();
  const auto first = all.lower_bound(start);
  const bool reaches_in = first != all.begin() && std::prev(first)->second.end > start;
  if (!reaches_in && (first == all.end() || first->first >= end)) return;
  auto& held = own();
  auto at = held.lower_bound(start);
  if (at != held.begin()) {
    const auto before = std::prev(at);
    if (before->second.end > start) {
      if (before->second.end > end) {  // a hole: the rest is a mapping of its own
        descriptions_->use(before->second.description);
        held[end] = before->second;
      }
      before->second.end = start;
    }
  }
  while (at != held.end() && at->first < end) {
    if (at->second.end > end) {
      const Mapping rest = at->second;
      held.erase(at);
      held[end] = rest;
      return;
    }
    descriptions_->release(at->second.description);
    at = held.erase(at);
  }
}

void Task::share(const Task& other) {
  table = other.table;
  directory = other.directory;
  root = other.root;
  memory = other.memory;
}

Signals& Task::signals() {
  if (!signals_) signals_ = std::make_unique<Signals>();
  return *signals_;
}

// The arguments of a call that may have ended on another line than it began.
std::string full_arguments(const Task& task, const Event& event) {
  std::string room;
  const std::string_view whole = full_arguments(task, event, room);
  return whole.data() == room.data() ? room : std::string(whole);
}

std::string_view full_arguments(const Task& task, const Event& event, std::string& room) {
  const std::string_view rest = view(event.arguments, event.arguments_end);
  if (event.shape != Shape::resumed) return rest;
  std::string_view entry;
  if (event.half == Half::here) {
    entry = view(event.entry, event.entry_end);
  } else if (event.half == Half::elsewhere && task.begun) {
    entry = task.begun_line;
  } else {
    return rest;
  }
  std::string padded(entry);
  padded.append(kPadding, '\0');
  const Line read = read_line(padded.data(), padded.data() + entry.size());
  if (!read.arguments) return rest;
  room.assign(view(read.arguments, read.end));
  room += rest;
  return room;
}

}  // namespace pm::strace
