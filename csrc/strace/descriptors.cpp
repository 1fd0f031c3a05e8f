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
    std::string longer = under->path.get();
    longer += '/';
    longer += path_now;
    path_now = std::move(longer);
    if (under->known) break;
    under = under->below;
  }
  return base ? bounded_path(normal_path(std::move(path_now))) : path_now;
}

// Farther down nobody looks, and what is below goes away one by one.
Directory::Directory(SharedText to, bool is_known, std::shared_ptr<Directory> under)
    : path(std::move(to)), known(is_known), below(std::move(under)) {
  constexpr unsigned kDeepest = 64;
  if (below && below->depth >= kDeepest) below.reset();
  depth = below ? below->depth + 1 : 0;
}

std::string bounded_path(std::string path) {
  if (path.size() <= kLongestPath) return path;
  const std::size_t at = path.find('/', path.size() - kLongestPath / 2);
  return "\u2026" + path.substr(at == std::string::npos ? path.size() - kLongestPath / 2 : at);
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
  if (index == kNone || --at(index).users > 0) return;
  if (at(index).flight.empty() && at(index).awaited.empty()) {
    forget(index);
    return;
  }
  std::vector<std::int32_t> ending{index};  // sockets may be on their way in sockets, and so on
  while (!ending.empty()) {
    const std::int32_t one = ending.back();
    ending.pop_back();
    for (const auto* const sent : {&at(one).flight, &at(one).awaited}) {
      for (const std::int32_t other : *sent) {
        if (other != kNone && --at(other).users == 0) ending.push_back(other);
      }
    }
    forget(one);
  }
}

void Descriptions::forget(std::int32_t index) {
  Description& closed = at(index);
  if (on_close) on_close(context, closed);
  const std::int32_t peer = closed.peer;
  std::string path = std::move(closed.path);  // these keep their memory for the next
  std::string flags = std::move(closed.flags);
  path.clear();
  flags.clear();
  closed = {};
  closed.path = std::move(path);
  closed.flags = std::move(flags);
  if (peer != kNone && at(peer).peer == index) at(peer).peer = kNone;
  free_.push_back(index);
}

void Descriptions::renamed(const std::string& from, const std::string& to) {
  if ((searched_ += all_.size()) > kMostSearched) return;
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
      one.path = bounded_path(std::move(moved));
      one.counted = nullptr;
    }
  }
}

void Descriptions::removed(const std::string& path) {
  if ((searched_ += all_.size()) > kMostSearched) return;
  for (Description& one : all_) {
    if (one.live && one.kind == Kind::file && one.path == path) one.deleted = true;
  }
}

}  // namespace pm::strace
