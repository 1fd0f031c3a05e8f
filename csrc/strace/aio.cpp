#include "strace/aio.h"

#include <algorithm>
#include <array>
#include <utility>

namespace pm::strace {
namespace {

constexpr std::size_t kMostRequests = 1024;  // of a process that have not ended
constexpr std::size_t kMostProcessesWithRequests = 1000;

// What reading and writing a file may end with, by the numbers of include/uapi/asm-generic/errno.h.
constexpr std::array<std::pair<std::int64_t, std::string_view>, 22> kEndErrors = {{
    {4, "EINTR"},     {5, "EIO"},      {6, "ENXIO"},       {9, "EBADF"},       {11, "EAGAIN"},
    {12, "ENOMEM"},   {14, "EFAULT"},  {16, "EBUSY"},      {19, "ENODEV"},     {22, "EINVAL"},
    {27, "EFBIG"},    {28, "ENOSPC"},  {30, "EROFS"},      {32, "EPIPE"},      {61, "ENODATA"},
    {74, "EBADMSG"},  {84, "EILSEQ"},  {95, "EOPNOTSUPP"}, {110, "ETIMEDOUT"}, {116, "ESTALE"},
    {117, "EUCLEAN"}, {122, "EDQUOT"},
}};

// The fields of `{name=value, …}` one after another, each with its name.
class Fields {
 public:
  explicit Fields(std::string_view group) noexcept
      : begin_(group.data()), words_(group.data() + 1, group.data() + group.size()) {}
  bool next(std::string_view& value) noexcept {
    if (!words_.next(value)) return false;
    return value.data() != nullptr;
  }
  // Arguments leaves out what is in front of a `=`.
  bool is(std::string_view value, std::string_view name) const noexcept {
    const auto before = static_cast<std::size_t>(value.data() - begin_);
    return before > name.size() && value.data()[-1] == '=' &&
           std::string_view(value.data() - 1 - name.size(), name.size()) == name;
  }

 private:
  const char* begin_;
  Arguments words_;
};

std::string_view error_of(std::int64_t result) noexcept {
  for (const auto& [number, name] : kEndErrors) {
    if (result == -number) return name;
  }
  return {};
}

bool read_end(std::string_view group, AioEnd& end) noexcept {
  Fields fields(group);
  std::string_view value;
  bool known = false;
  while (fields.next(value)) {
    if (fields.is(value, "data")) end.data = static_cast<std::uint64_t>(number_in(value));
    if (!fields.is(value, "res")) continue;
    end.result = number_in(value);
    end.error = error_of(end.result);
    known = true;
  }
  return known;
}

bool has_failed(const AioEnd& end) noexcept { return !end.error.empty(); }

// Of an end and a request, or of two ends: whether a program cannot tell them apart.
template <class Other>
bool is_end_of(const AioEnd& end, const Other& other) noexcept {
  return other.context == end.context && other.data == end.data;
}

}  // namespace

void read_ends(std::string_view arguments, std::vector<AioEnd>& ends) {
  Arguments all(arguments.data(), arguments.data() + arguments.size());
  AioEnd end;
  std::string_view argument;
  for (unsigned i = 0; all.next(argument); ++i) {
    if (i == 0) end.context = static_cast<std::uint64_t>(number_in(argument));
    if (!argument.starts_with("[{")) continue;
    Arguments list(argument.data() + 1, argument.data() + argument.size());
    std::string_view group;
    while (list.next(group) && group.starts_with('{') && ends.size() < kMostRequests) {
      if (read_end(group, end)) ends.push_back(end);
    }
  }
}

void fail_within(Result& result, std::string_view arguments) {
  if (!result.known || result.value <= 0 || !contains(arguments, "res=-")) return;
  std::vector<AioEnd> ends;
  read_ends(arguments, ends);
  const auto failed = std::find_if(ends.begin(), ends.end(), has_failed);
  if (failed == ends.end()) return;
  result.error = failed->error;
  result.within = true;
}

bool may_hold_within(const std::vector<Query>& queries, const Event& event) {
  std::vector<AioEnd> ends;
  read_ends(view(event.arguments, event.arguments_end), ends);
  Event one = event;
  return std::any_of(ends.begin(), ends.end(), [&](const AioEnd& end) {
    one.result.error = end.error;
    return has_failed(end) && std::any_of(queries.begin(), queries.end(),
                                          [&](const Query& query) { return query.may_hold(one); });
  });
}

void AioRequests::submitted(std::uint32_t process, const Event& event) {
  if (requests_.size() >= kMostProcessesWithRequests && !requests_.contains(process)) return;
  const std::string_view all = view(event.arguments, event.arguments_end);
  const std::string_view list = argument_at(all, 2);
  if (!list.starts_with("[{")) return;
  std::deque<AioRequest>& requests = requests_[process];
  Arguments groups(list.data() + 1, list.data() + list.size());
  std::string_view group;
  while (groups.next(group) && group.starts_with('{')) {
    AioRequest request;
    request.context = static_cast<std::uint64_t>(number_in(argument_at(all, 0)));
    Fields fields(group);
    std::string_view value;
    while (fields.next(value)) {
      if (fields.is(value, "aio_data")) request.data = static_cast<std::uint64_t>(number_in(value));
      if (!fields.is(value, "aio_fildes")) continue;
      const FdArgument fd = read_fd(value);
      request.fd = fd.number;
      request.annotation.assign(fd.annotation);
      request.deleted = fd.deleted;
    }
    if (request.fd < 0) continue;
    if (requests.size() >= kMostRequests) requests.pop_front();
    requests.push_back(std::move(request));
  }
}

void AioRequests::reaped(std::uint32_t process, const Event& event) {
  const auto known = requests_.find(process);
  if (known == requests_.end() || !event.result.known || event.result.value <= 0) return;
  std::deque<AioRequest>& requests = known->second;
  std::vector<AioEnd> ends;
  read_ends(view(event.arguments, event.arguments_end), ends);
  for (const AioEnd& end : ends) {
    const auto of = [&](const AioRequest& request) { return is_end_of(end, request); };
    const auto found = std::find_if(requests.begin(), requests.end(), of);
    if (found != requests.end()) requests.erase(found);
  }
}

const std::vector<AioEnd>& AioRequests::take_apart(std::string_view arguments) {
  ends_.clear();
  read_ends(arguments, ends_);
  return ends_;
}

const AioRequest* AioRequests::failed(std::uint32_t process, const Event& event,
                                      std::string_view arguments, bool& guessed) {
  const auto known = requests_.find(process);
  if (known == requests_.end()) return nullptr;
  auto failed = ends_.cbegin() + std::max<std::int64_t>(event.b, 0);
  if (event.b < 0) {
    take_apart(arguments);
    failed = std::find_if(ends_.cbegin(), ends_.cend(), has_failed);
    if (failed == ends_.cend()) return nullptr;
  }
  auto before = std::count_if(ends_.cbegin(), failed,
                              [&](const AioEnd& end) { return is_end_of(end, *failed); });
  const AioRequest* first = nullptr;
  const AioRequest* meant = nullptr;
  for (const AioRequest& request : known->second) {
    if (!is_end_of(*failed, request)) continue;
    if (!first) first = &request;
    guessed |= request.fd != first->fd;
    if (before-- == 0) meant = &request;
  }
  return meant;
}

}  // namespace pm::strace
