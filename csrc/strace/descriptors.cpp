#include "strace/descriptors.h"

#include <algorithm>

namespace pm::strace {

std::string normal_path(std::string path) {
  const bool plain = path.find("//") == std::string::npos && path.find("/.") == std::string::npos &&
                     !path.starts_with("./") && !path.starts_with("..") && path != ".";
  if (plain) {
    if (path.size() > 1 && path.ends_with('/')) path.pop_back();
    return path;
  }
  const bool absolute = path.starts_with('/');
  std::vector<std::string_view> parts;
  std::string_view rest = path;
  while (!rest.empty()) {
    const std::size_t slash = rest.find('/');
    const std::string_view part = rest.substr(0, slash);
    rest = slash == std::string_view::npos ? std::string_view{} : rest.substr(slash + 1);
    if (part.empty() || part == ".") continue;
    if (part == ".." && (absolute || (!parts.empty() && parts.back() != ".."))) {
      if (!parts.empty()) parts.pop_back();
    } else {
      parts.push_back(part);
    }
  }
  std::string normal;
  for (const std::string_view part : parts) {
    if (absolute || !normal.empty()) normal += '/';
    normal += part;
  }
  if (normal.empty()) normal.assign(1, absolute ? '/' : '.');
  return normal;
}

std::string Description::whole_path() const {
  std::string path_now = path;
  std::shared_ptr<Directory> under = base;
  for (unsigned depth = 0; under && depth < 64; ++depth) {
    if (under->path.empty()) break;
    std::string longer = under->path;
    longer += '/';
    longer += path_now;
    path_now = std::move(longer);
    if (under->known) break;
    under = under->below;
  }
  return base ? normal_path(std::move(path_now)) : path_now;
}

void Description::become(const Description& other) {
  path = other.path;
  flags = other.flags;
  label = other.label;
  base = other.base;
  opened = other.opened;
  kind = other.kind;
  deleted = other.deleted;
  nameless = other.nameless;
  guessed = other.guessed;
}

std::int32_t Descriptions::add() {
  std::int32_t index;
  if (free_.empty()) {
    index = static_cast<std::int32_t>(all_.size());
    all_.emplace_back();
  } else {
    index = free_.back();
    free_.pop_back();
  }
  Description& made = at(index);
  made.users = 1;
  made.live = true;
  return index;
}

void Descriptions::release(std::int32_t index) {
  if (index == kNone) return;
  Description& gone = at(index);
  if (--gone.users > 0) return;
  if (on_gone) on_gone(context, gone);
  std::vector<std::int32_t> flight = std::move(gone.flight);
  flight.insert(flight.end(), gone.awaited.begin(), gone.awaited.end());
  const std::int32_t peer = gone.peer;
  std::string path = std::move(gone.path);  // keeps its memory for the next
  path.clear();
  gone = {};
  gone.path = std::move(path);
  if (peer != kNone && at(peer).peer == index) at(peer).peer = kNone;
  free_.push_back(index);
  for (const std::int32_t sent : flight) release(sent);
}

void Descriptions::renamed(const std::string& from, const std::string& to) {
  for (Description& one : all_) {
    if (!one.live || one.kind != Kind::file || one.path.size() < from.size()) continue;
    if (one.path == from) {
      one.path = to;
    } else if (one.path == to) {
      one.deleted = true;  // the new name hides it
    } else if (one.path.starts_with(from) && one.path[from.size()] == '/') {
      std::string moved = to;
      moved += std::string_view(one.path).substr(from.size());
      one.path = std::move(moved);
    }
  }
}

void Descriptions::removed(const std::string& path) {
  for (Description& one : all_) {
    if (one.live && one.kind == Kind::file && one.path == path) one.deleted = true;
  }
}

Table::Table(const Table& other) : slots(other.slots), descriptions(other.descriptions) {
  for (const Slot& slot : slots) descriptions->use(slot.description);
}

Table::~Table() {
  for (const Slot& slot : slots) descriptions->release(slot.description);
}

const Slot* Table::find(std::int64_t number) const noexcept {
  if (number < 0 || number >= static_cast<std::int64_t>(slots.size())) return nullptr;
  return &slots[static_cast<std::size_t>(number)];
}

std::int32_t Table::at(std::int64_t number) const noexcept {
  const Slot* const slot = find(number);
  return slot ? slot->description : kNone;
}

void Table::set(std::int64_t number, std::int32_t description, bool cloexec, const Opened& by) {
  if (number < 0 || number >= kMostNumbers) {
    descriptions->release(description);
    return;
  }
  const auto at = static_cast<std::size_t>(number);
  if (at >= slots.size()) slots.resize(at + 8);
  descriptions->release(slots[at].description);
  slots[at] = {description, cloexec, by};
}

void Table::clear(std::int64_t number) {
  if (find(number)) set(number, kNone, false, {});
}

void Table::clear_range(std::int64_t first, std::int64_t last) {
  const auto size = static_cast<std::int64_t>(slots.size());
  for (std::int64_t i = std::max<std::int64_t>(first, 0); i < size && i <= last; ++i) clear(i);
}

void Table::clear_cloexec() {
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].cloexec) clear(static_cast<std::int64_t>(i));
  }
}

}  // namespace pm::strace
