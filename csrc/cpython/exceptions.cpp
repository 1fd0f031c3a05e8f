#include "cpython/exceptions.h"

#include <vector>

#include "cpython/values.h"

namespace pm::cpython {
namespace {

constexpr std::size_t kMessageLimit = 4096;
constexpr std::size_t kMaxCauses = 8;
constexpr std::size_t kMaxTraceback = 20'000;
constexpr std::size_t kTracebackHead = 16, kTracebackTail = 48;
constexpr int kMaxBases = 32;
constexpr int kMaxHandlers = 64;

}  // namespace

bool Exceptions::derives(const Type& type, std::string_view base) const {
  if (type.name == base) return true;
  std::uint64_t address = type.address;
  for (int i = 0; i < kMaxBases && address; ++i) {
    address = heap_.pointer(address, heap_.layout().type_base);
    if (heap_.type_at(address).name == base) return true;
  }
  return false;
}

// As a traceback names it: with its module, unless that is builtins or __main__.
std::string Exceptions::type_name(const Type& type) const {
  if (!type.is(kHeapType)) return type.name.empty() ? "??" : type.name;
  const Layout& at = heap_.layout();
  const auto qualified = heap_.text(heap_.pointer(type.address, at.type_qualname), 300);
  std::string name = qualified && !qualified->empty() ? *qualified : type.name;
  if (name.empty()) name = "??";
  const std::uint64_t dict = heap_.pointer(type.address, at.type_dict);
  const auto module = heap_.text(heap_.lookup(dict, "__module__"), 300);
  if (!module || module->empty() || *module == "builtins" || *module == "__main__") return name;
  return *module + "." + name;
}

// str() of an OSError, as Objects/exceptions.c makes it; empty when it has no errno.
std::string Exceptions::os_error_message(std::uint64_t exception) const {
  const Layout& at = heap_.layout();
  const std::uint64_t number = heap_.pointer(exception, at.os_errno);
  const std::uint64_t text = heap_.pointer(exception, at.os_strerror);
  if (!number || !text) return {};
  std::string result =
      "[Errno " + render_value(heap_, number) + "] " + render_message(heap_, text, kMessageLimit);
  const auto is_set = [&](std::uint64_t value) {
    return value && heap_.type_of(value).name != "NoneType";
  };
  const std::uint64_t file = heap_.pointer(exception, at.os_filename);
  const std::uint64_t other = heap_.pointer(exception, at.os_filename2);
  if (is_set(file)) result += ": " + render_value(heap_, file);
  if (is_set(file) && is_set(other)) result += " -> " + render_value(heap_, other);
  return result;
}

// What BaseException.__str__ makes of the arguments; a class's own __str__ cannot be run.
std::string Exceptions::message(std::uint64_t exception) const {
  const Layout& at = heap_.layout();
  const Type type = heap_.type_of(exception);
  if (derives(type, "OSError")) {
    if (std::string text = os_error_message(exception); !text.empty()) return text;
  }
  const std::uint64_t args = heap_.pointer(exception, at.exception_args);
  if (!heap_.type_of(args).is(kTuple)) return {};
  const std::uint64_t count = heap_.size(args, 1u << 20);
  if (count == 0) return {};
  const std::uint64_t first =
      heap_.get<std::uint64_t>(args + static_cast<std::uint64_t>(at.tuple_items)).value_or(0);
  // SyntaxError(msg, (file, line, ...)) shows the message alone here.
  if (count > 1 && !derives(type, "SyntaxError")) return render_value(heap_, args);
  if (derives(type, "KeyError")) return render_value(heap_, first);
  return render_message(heap_, first, kMessageLimit);
}

void Exceptions::add_traceback(std::uint64_t traceback, Exception& exception) const {
  const Layout& at = heap_.layout();
  std::vector<std::uint64_t> entries;
  while (traceback && entries.size() < kMaxTraceback &&
         heap_.type_of(traceback).name == "traceback") {
    entries.push_back(traceback);
    traceback = heap_.pointer(traceback, at.traceback_next);
  }
  std::size_t head = entries.size(), tail = entries.size();
  if (entries.size() > kTracebackHead + kTracebackTail) {
    head = kTracebackHead;
    tail = entries.size() - kTracebackTail;
    exception.traceback_skipped = tail - head;
  }
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (i >= head && i < tail) continue;
    TracebackLine row;
    const auto place = frames_.place_of(heap_.pointer(entries[i], at.traceback_frame));
    const Code* const code = place ? codes_.find(place->code) : nullptr;
    const auto line = heap_.field<std::int32_t>(entries[i], at.traceback_line);
    if (line && *line > 0) row.line = *line;
    if (code) {
      row.file = code->file;
      row.function = code->function;
      const auto last = heap_.field<std::int32_t>(entries[i], at.traceback_lasti);
      // -1: to be worked out when somebody asks (3.12 and later).
      if (!row.line && last) row.line = code->line(*last);
    } else {
      row.function = "??";
    }
    heap_.charge(sizeof row + row.file.size() + row.function.size());
    exception.traceback.push_back(std::move(row));
  }
}

// What Python prints above it: __cause__, else __context__ unless that is suppressed.
std::uint64_t Exceptions::linked(std::uint64_t exception, bool& cause) const {
  const Layout& at = heap_.layout();
  const auto is_exception = [&](std::uint64_t object) {
    return object && heap_.type_of(object).is(kException);
  };
  const std::uint64_t first = heap_.pointer(exception, at.exception_cause);
  cause = is_exception(first);
  if (cause) return first;
  if (heap_.field<std::uint8_t>(exception, at.exception_suppress).value_or(0)) return 0;
  const std::uint64_t context = heap_.pointer(exception, at.exception_context);
  return is_exception(context) ? context : 0;
}

Exception Exceptions::describe(std::uint64_t exception) const {
  Exception result;
  result.type = type_name(heap_.type_of(exception));
  result.message = message(exception);
  add_traceback(heap_.pointer(exception, heap_.layout().exception_traceback), result);
  std::uint64_t current = exception;
  while (result.chain.size() < kMaxCauses) {
    LinkedException link;
    current = linked(current, link.cause);
    if (current == 0) break;
    link.type = type_name(heap_.type_of(current));
    link.message = message(current);
    result.chain.push_back(std::move(link));
  }
  return result;
}

std::optional<Exception> Exceptions::raised(std::uint64_t thread_state) const {
  const Layout& at = heap_.layout();
  const std::uint64_t value = heap_.pointer(thread_state, at.thread_raised);
  if (value && heap_.type_of(value).is(kException)) {
    Exception result = describe(value);
    if (result.traceback.empty() && at.thread_raised_traceback >= 0) {
      add_traceback(heap_.pointer(thread_state, at.thread_raised_traceback), result);
    }
    return result;
  }
  // Up to 3.11 C code sets a type and what the exception is to be made of, later.
  const std::uint64_t kind = heap_.pointer(thread_state, at.thread_raised_type);
  const Type type = heap_.type_at(kind);
  if (!type.is(kException) || !heap_.type_of(kind).is(kType)) return std::nullopt;
  Exception result;
  result.type = type_name(type);
  if (value) result.message = render_message(heap_, value, kMessageLimit);
  add_traceback(heap_.pointer(thread_state, at.thread_raised_traceback), result);
  return result;
}

std::optional<Exception> Exceptions::handled(std::uint64_t thread_state) const {
  const Layout& at = heap_.layout();
  // Each generator that runs has an item of its own; the last lies in the thread state.
  std::uint64_t item = heap_.pointer(thread_state, at.thread_exc_info);
  for (int i = 0; item && i < kMaxHandlers; ++i) {
    const std::uint64_t value = heap_.pointer(item, at.handled_value);
    if (value && heap_.type_of(value).is(kException)) return describe(value);
    item = heap_.pointer(item, at.handled_previous);
  }
  return std::nullopt;
}

}  // namespace pm::cpython
