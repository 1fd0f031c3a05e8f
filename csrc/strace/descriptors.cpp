#include "strace/descriptors.h"

#include <algorithm>

#include "strace/text.h"

namespace pm::strace {
namespace {

// Whether `//` or `/.` is in a path. Nearly all have neither, so that all of it is read.
bool has_odd_part(const std::string& path) noexcept {
  const char* p = path.data();
  const char* const end = p + path.size();
#if defined(__SSE2__)
  const __m128i slash = _mm_set1_epi8('/');
  const __m128i dot = _mm_set1_epi8('.');
  for (; end - p > 16; p += 16) {
    const __m128i first = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m128i second = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 1));
    const __m128i odd = _mm_or_si128(_mm_cmpeq_epi8(second, slash), _mm_cmpeq_epi8(second, dot));
    if (_mm_movemask_epi8(_mm_and_si128(_mm_cmpeq_epi8(first, slash), odd)) != 0) return true;
  }
#endif
  for (; end - p > 1; ++p) {
    if (*p == '/' && (p[1] == '/' || p[1] == '.')) return true;
  }
  return false;
}

}  // namespace

std::string normal_path(std::string path) {
  const bool plain =
      !has_odd_part(path) && !path.starts_with("./") && !path.starts_with("..") && path != ".";
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
  counted = nullptr;
  flags = other.flags;
  label = other.label;
  base = other.base;
  opened = other.opened;
  kind = other.kind;
  deleted = other.deleted;
  nameless = other.nameless;
  guessed = other.guessed;
  for_epoll = other.for_epoll;
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
  std::string path = std::move(gone.path);  // these keep their memory for the next
  std::string flags = std::move(gone.flags);
  path.clear();
  flags.clear();
  gone = {};
  gone.path = std::move(path);
  gone.flags = std::move(flags);
  if (peer != kNone && at(peer).peer == index) at(peer).peer = kNone;
  free_.push_back(index);
  for (const std::int32_t sent : flight) release(sent);
}

void Descriptions::renamed(const std::string& from, const std::string& to) {
  for (Description& one : all_) {
    if (!one.live || one.kind != Kind::file || one.path.size() < from.size()) continue;
    if (one.path == from) {
      one.path = to;
      one.counted = nullptr;
    } else if (one.path == to) {
      one.deleted = true;  // the new name hides it
    } else if (one.path.starts_with(from) && one.path[from.size()] == '/') {
      std::string moved = to;
      moved += std::string_view(one.path).substr(from.size());
      one.path = std::move(moved);
      one.counted = nullptr;
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
