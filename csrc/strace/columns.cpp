#include "strace/columns.h"

#include <algorithm>
#include <new>

namespace pm::strace {

Rows::Rows(Rows&& other) noexcept { *this = std::move(other); }

Rows& Rows::operator=(Rows&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(capacity_, other.capacity_);
  return *this;
}

void Rows::add(const Row& row) {
  if (size_ == capacity_) {
    const std::size_t more = capacity_ ? capacity_ + capacity_ / 2 : 4096;
    void* const grown = std::realloc(static_cast<void*>(data_), more * sizeof(Row));
    if (!grown) throw std::bad_alloc();
    data_ = static_cast<Row*>(grown);
    capacity_ = more;
  }
  data_[size_++] = row;
}

std::int32_t Texts::number(std::string_view text) {
  if (last_number_ >= 0 && text == last_) return last_number_;
  last_ = text;
  const auto found = index_.find(last_);
  if (found != index_.end()) return last_number_ = found->second;
  if (all_.size() >= kMost) return last_number_ = -1;
  const auto number = static_cast<std::int32_t>(all_.size());
  all_.push_back(last_);
  index_.emplace(last_, number);
  return last_number_ = number;
}

void Texts::clear() {
  index_.clear();
  all_.clear();
  last_number_ = -1;
}

Columns::Columns(Mask mask, std::size_t batch, std::function<void(Columns&)> full)
    : masked_(std::move(mask)), batch_(batch), full_(std::move(full)) {
  errors_.number("");
}

void Columns::begin(const LogLabel& label) {
  first_file_ = static_cast<std::int32_t>(files_.size());
  files_.insert(files_.end(), label.files.begin(), label.files.end());
}

void Columns::call(const CallRecord& call, const Tracker&) {
  const Target& target = call.target();
  Row row{};
  row.start_ns = call.start;
  row.duration_ns = call.duration;
  row.result = call.result.known ? call.result.value : 0;
  row.bytes = call.bytes();
  row.line = static_cast<std::int64_t>(call.place.line);
  row.began_line = static_cast<std::int64_t>(call.began);
  row.pid = static_cast<std::int32_t>(call.pid);
  row.fd = static_cast<std::int32_t>(std::clamp<std::int64_t>(call.fd(), -1, INT32_MAX));
  row.file = first_file_ + static_cast<std::int32_t>(call.place.file);
  const std::string& words = target.path.empty() ? target.label : target.path;
  row.target = words.empty() ? -1 : targets_.number(masked_(words));
  std::int32_t name = call.call;
  if (call.call == kUnknownCall) {
    name = static_cast<std::int32_t>(call_count()) + other_calls_.number(call.name);
  }
  row.syscall = static_cast<std::uint16_t>(std::min(name, 0xffff));
  row.errno_ = static_cast<std::uint16_t>(
      std::clamp(errors_.number(call.result.error), std::int32_t{0}, std::int32_t{0xffff}));
  row.kind = static_cast<std::uint8_t>(target.kind);
  row.source = static_cast<std::uint8_t>(target.origin);
  row.flags = static_cast<std::uint8_t>(
      (call.result.known ? kReturned : 0) | (call.joined() ? kJoined : 0) |
      (call.unfinished ? kUnfinished : 0) | (call.result.injected ? kInjected : 0) |
      (target.deleted ? kDeleted : 0));
  rows_.add(row);
  if (full_ && rows_.size() >= batch_) hand_over();
}

void Columns::hand_over() {
  full_(*this);
  rows_ = Rows();
  targets_.clear();
}

void Columns::close() {
  if (full_ && rows_.size()) hand_over();
}

std::vector<std::string> Columns::syscalls() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < call_count(); ++i) {
    names.emplace_back(call_at(static_cast<std::uint16_t>(i)).name);
  }
  names.insert(names.end(), other_calls_.all().begin(), other_calls_.all().end());
  return names;
}

}  // namespace pm::strace
