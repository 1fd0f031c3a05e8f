// The arguments that the tracker needs of each call.
#include <algorithm>

#include "strace/extractor.h"
#include "strace/rings.h"

namespace pm::strace {
namespace {

constexpr std::uint64_t kCloexec = 02000000;  // O_CLOEXEC and its likes, on all but alpha, sparc

// Behind the string that opens at `at`; `text` is what is between the quotes.
const char* take_string(const char* at, const char* end, std::string_view& text) noexcept {
  const char* p = at + 1;
  for (;;) {
    p = find(p, end, '"');
    const char* back = p;
    while (back > at + 1 && back[-1] == '\\') --back;
    if (p >= end || (p - back) % 2 == 0) break;
    ++p;
  }
  text = view(at + 1, p);
  return p < end ? p + 1 : end;
}

// Behind a word without commas and brackets, such as O_RDONLY|O_CLOEXEC: where its comma or bracket
// is; `end` if that is far.
const char* skip_word(const char* at, const char* end) noexcept {
  const unsigned length = std::min(find_in_32(at, ','), find_in_32(at, ')'));
  return length < 32 && at + length < end ? at + length : end;
}
const char* skip_to_comma(const char* at, const char* end) noexcept {
  const std::uint64_t commas = mask_of_64(at, ',');
  const auto length = std::countr_zero(commas);
  return commas && length < end - at ? at + length : end;
}

// Where the path begins behind `AT_FDCWD, "` or `AT_FDCWD</here>, "`; null if something else stands
// there.
const char* behind_here(const char* at, const char* end) noexcept {
  if (!starts(at, end, "AT_FDCWD")) return nullptr;
  const char* const p = skip_annotation(at + 8, end);
  return starts(p, end, ", \"") ? p + 2 : nullptr;
}

// A decimal number as strace writes sizes; moves `at` behind it.
bool take_size(const char*& at, const char* end, std::int64_t& value) noexcept {
  const char* p = at;
  std::uint64_t read = 0;
  if (p >= end || *p == '0' || !read_digits(p, end, read) || read > INT64_MAX) return false;
  value = static_cast<std::int64_t>(read);
  at = p;
  return true;
}

bool take_separator(const char*& at, const char* end) noexcept {
  if (end - at < 2 || at[0] != ',' || at[1] != ' ') return false;
  at += 2;
  return true;
}

// mmap() as nearly all logs have it: `NULL, 8192, PROT_READ, MAP_PRIVATE, 3</lib>, 0)`.
struct PlainMap {
  std::int64_t length = 0;
  std::uint32_t fd = 0;
  bool none = false;  // -1 in place of a descriptor
  std::string_view flags;

  bool read(const char* p, const char* end) noexcept {
    if (starts(p, end, "NULL")) {
      p += 4;
    } else {
      if (!starts(p, end, "0x")) return false;
      p = skip_to_comma(p, end);
    }
    if (!take_separator(p, end) || !take_size(p, end, length) || !take_separator(p, end)) {
      return false;
    }
    if (!starts(p, end, "PROT_")) return false;
    p = skip_to_comma(p, end);
    if (!take_separator(p, end) || !starts(p, end, "MAP_")) return false;
    const char* const stop = skip_to_comma(p, end);
    flags = view(p, stop);
    p = stop;
    if (!take_separator(p, end)) return false;
    none = starts(p, end, "-1,");
    return none || (read_short(p, fd) && p < end && (*p == ',' || *p == '<'));
  }
  // The kernel puts an anonymous mapping where nothing is, unless it is told where.
  bool idle() const noexcept {
    return contains(flags, "MAP_ANONYMOUS") && !contains(flags, "FIXED");
  }
};

// munmap(0x7fe70c6fa000, 8192)
bool read_unmap(const char* p, const char* end, Event& event) noexcept {
  if (!starts(p, end, "0x")) return false;
  const std::int64_t start = read_number(p, end);
  std::int64_t length = 0;
  if (!take_separator(p, end) || !take_size(p, end, length) || p >= end || *p != ')') return false;
  event.a = start;
  event.b = length;
  return true;
}

// Whether a poll() or its likes came back with nothing, after it had waited.
bool waited_in_vain(const Event& event) {
  if (event.shape == Shape::entry || event.shape == Shape::open) return false;
  if (!event.result.known || event.result.value != 0 || !event.result.error.empty()) return false;
  const std::string_view all = view(event.arguments, event.arguments_end);
  return !contains(all, ", 0) ") && !contains(all, "{tv_sec=0, tv_nsec=0}") &&
         !contains(all, "{tv_sec=0, tv_usec=0}");
}

// Whether a wait for a child tells how that ended.
bool tells_end(const Event& event) {
  const std::string_view all = view(event.arguments, event.arguments_end);
  return event.result.worked() && (contains(all, "s) == ") || contains(all, "CLD_"));
}

}  // namespace

// Reads the arguments that the tracker needs; false if this call changes nothing.
bool Extractor::decode_args(Event& event) const {
  if (event.shape != Shape::resumed && !decode_first_args(event)) return false;
  if (event.op == Op::fcntl && event.shape == Shape::resumed && event.result.value < 3)
    return false;
  if (event.op == Op::wait) return waited_in_vain(event);
  if (event.op == Op::reap) return tells_end(event);
  if (event.op == Op::aio_events) return event.shape == Shape::entry || event.result.value > 0;
  if (event.op == Op::getsockopt && event.shape == Shape::resumed && event.half == Half::here) {
    return contains(view(event.entry_arguments, event.entry_end), "SO_ERROR");
  }
  if (event.op == Op::pair || event.op == Op::create || event.op == Op::socket ||
      event.op == Op::accept || event.op == Op::memfd || event.op == Op::iouring) {
    const std::string_view all = view(event.arguments, event.arguments_end);
    event.cloexec |= contains(all, "CLOEXEC");
  }
  return true;
}

// Whether the arguments of a call say, at a glance, that it changes nothing.
bool Extractor::idle(Op op, const char* p, const char* end) noexcept {
  if (op == Op::mmap) {
    PlainMap plain;
    return plain.read(p, end) && plain.idle();
  }
  std::uint32_t fd = 0;
  return op == Op::ioctl && read_short(p, fd) && starts(skip_annotation(p, end), end, ", TCGETS");
}

bool Extractor::decode_first_args(Event& event) const {
  const char* p = event.arguments;
  const char* const end = event.arguments_end;
  Arguments arguments(p, end);
  std::string_view argument;
  const auto number = [&](std::int64_t& value) {
    if (!arguments.next(argument)) return false;
    const FdArgument fd = read_fd(argument);
    value = fd.number;
    return fd.valid;
  };
  switch (event.op) {
    case Op::openat:
    case Op::unlinkat:
      if (const char* const path = behind_here(p, end)) {
        event.a = kWorkingDirectory;
        p = take_string(path, end, event.text);
      } else {
        if (!number(event.a) || !arguments.next(argument)) return true;
        bool quoted;
        event.text = quoted_part(argument, quoted);
        p = argument.data() + argument.size();
      }
      if (starts(p, end, ", O_")) {
        const char* const plain = p + 2;
        if (const char* const stop = skip_word(plain, end); stop < end) {
          event.flags = view(plain, stop);
          event.cloexec = contains(event.flags, "CLOEXEC");
          return true;
        }
      }
      event.flags =
          p < end ? view(p, skip_argument(p + 1 < end ? p + 1 : end, end)) : std::string_view{};
      while (!event.flags.empty() && (event.flags[0] == ',' || event.flags[0] == ' ')) {
        event.flags.remove_prefix(1);
      }
      event.cloexec = has_flag(event.flags, "O_CLOEXEC", kCloexec);
      return true;
    case Op::open:
    case Op::creat:
    case Op::chdir:
    case Op::chroot:
    case Op::unlink:
    case Op::rmdir: {
      if (!arguments.next(argument)) return true;
      bool quoted;
      event.text = quoted_part(argument, quoted);
      if (event.op == Op::open && arguments.next(event.flags)) {
        event.cloexec = has_flag(event.flags, "O_CLOEXEC", kCloexec);
      }
      return true;
    }
    case Op::close:
    case Op::fchdir:
      // All that there is, mostly: no need to look where an annotation ends.
      if (std::uint32_t plain = 0;
          read_short(p, plain) && (p == end || (p < end && (*p == ')' || *p == '<')))) {
        event.a = plain;
        return true;
      }
      return number(event.a);
    case Op::pidfd_open:
    case Op::read:
    case Op::accept:
    case Op::connect:
    case Op::bind:
    case Op::exit:
    case Op::getsockname:
      return number(event.a);
    case Op::getsockopt:
      return contains(view(p, end), "SO_ERROR") && number(event.a);
    case Op::watch:
      return number(event.a) && arguments.next(event.flags) && number(event.b);
    case Op::write:
      if (calls_.at(event.call).first == 0) return number(event.a);
      {
        const unsigned index = calls_.at(event.call).first;
        const FdArgument fd = read_fd(argument_at(view(p, end), index));
        event.a = fd.number;
        return fd.valid;
      }
    case Op::dup:
      if (!number(event.a)) return false;
      if (number(event.b) && arguments.next(argument)) {
        event.cloexec = has_flag(argument, "O_CLOEXEC", kCloexec);
      }
      return true;
    case Op::fcntl: {
      if (!number(event.a) || !arguments.next(argument)) return false;
      const char* word = argument.data();
      const std::int64_t raw = read_number(word, argument.data() + argument.size());
      const bool is_raw = word != argument.data();
      if (argument.starts_with("F_DUPFD") || contains(argument, " F_DUPFD") ||
          (is_raw && (raw == 0 || raw == 1030))) {
        event.b = 1;
        event.cloexec = contains(argument, "CLOEXEC") || (is_raw && raw == 1030);
        return true;
      }
      if (argument.starts_with("F_SETFD") || (is_raw && raw == 2)) {
        event.b = 2;
        event.cloexec = arguments.next(argument) && has_flag(argument, "FD_CLOEXEC", 1);
        return true;
      }
      return false;
    }
    case Op::ioctl: {
      if (!number(event.a) || !arguments.next(argument)) return false;
      const bool set = contains(argument, "FIOCLEX") || argument.starts_with("0x5451");
      const bool clear = contains(argument, "FIONCLEX") || argument.starts_with("0x5450");
      event.cloexec = set;
      return set || clear;
    }
    case Op::close_range:
      if (!number(event.a) || !arguments.next(argument)) return false;
      event.b = read_fd(argument).number;  // ~0U, 4294967295, -1: to the last
      if (argument.starts_with("~") || event.b < 0) event.b = -1;
      if (arguments.next(argument)) {
        event.cloexec = has_flag(argument, "CLOSE_RANGE_CLOEXEC", 4);
        event.flags = argument;
      }
      return true;
    case Op::mmap: {
      if (PlainMap plain; plain.read(p, end)) {
        event.a = plain.none ? -1 : plain.fd;
        event.b = plain.length;
        return !plain.idle();
      }
      const std::string_view all = view(p, end);
      if (contains(all, "MAP_ANONYMOUS") && !contains(all, "MAP_FIXED")) return false;
      const std::string_view fd = argument_at(view(p, end), 4);
      const FdArgument read = read_fd(fd);
      event.a = read.valid ? read.number : -1;
      return true;
    }
    case Op::munmap:
      if (event.shape == Shape::call) read_unmap(p, end, event);
      return true;
    case Op::self:
      return event.result.present && event.result.value > 0;
    case Op::iouring_enter:
      event.b = number(event.a) ? entered_for_all(view(p, end)) : -1;
      return true;
    default:
      return true;
  }
}

}  // namespace pm::strace
