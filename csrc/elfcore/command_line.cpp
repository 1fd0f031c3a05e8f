#include "elfcore/command_line.h"

#include <elf.h>

#include <algorithm>

namespace pm::elfcore {
namespace {

// include/uapi/linux/binfmts.h (MAX_ARG_STRLEN) and the 6 MiB ceiling of fs/exec.c.
constexpr std::size_t kMaxString = 131072;
constexpr std::size_t kMaxStrings = std::size_t{6} << 20;
constexpr std::size_t kMaxPointers = kMaxStrings / 8;
// The vector lies within a few hundred bytes below the random bytes and the platform's name.
constexpr std::uint64_t kNear = 64 << 10;
constexpr std::uint64_t kFar = std::uint64_t{16} << 20;

// The auxiliary vector up to and with AT_NULL: behind it the note may hold zeros.
Bytes used_part(Bytes auxv) {
  for (std::uint64_t at = 0; at + 16 <= auxv.size(); at += 16) {
    if (load<std::uint64_t>(auxv, at) == 0) return auxv.first(at + 16);
  }
  return auxv;
}

// Address of the last copy of `wanted` that ends below `limit`, in a window of `length` bytes.
std::optional<std::uint64_t> find_below(const Core& core, Bytes wanted, const Segment& segment,
                                        std::uint64_t limit, std::uint64_t length) {
  const std::uint64_t end = std::min(limit, segment.start + segment.present);
  if (end <= segment.start || wanted.size() < 32) return std::nullopt;
  std::uint64_t start = end - std::min(length, end - segment.start);
  // A slim core may begin in the middle of the stack.
  if (const Segment* const piece = core.piece_at(end - 1)) start = std::max(start, piece->start);
  const Bytes window = clip(core.dumped_at(start), 0, end - start);
  const std::string_view view = as_text(window), text = as_text(wanted);
  for (std::size_t at = view.rfind(text); at != std::string_view::npos && at > 0;
       at = view.rfind(text, at - 1)) {
    if ((start + at) % 8 == 0) return start + at;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> find_vector(const Core& core) {
  const Bytes wanted = used_part(core.auxv_bytes());
  for (const std::uint64_t length : {kNear, kFar}) {
    for (const std::uint64_t type : {AT_RANDOM + 0UL, AT_PLATFORM + 0UL, AT_EXECFN + 0UL}) {
      const auto address = core.auxv(type);
      const Segment* const segment = address ? core.segment_at(*address) : nullptr;
      if (!segment) continue;
      if (const auto found = find_below(core, wanted, *segment, *address, length)) return found;
    }
  }
  return std::nullopt;
}

struct Pointers {
  std::vector<std::uint64_t> arguments, environment;
};

// Walks down from the vector: NULL, envp, NULL, argv, argc. All of it must fit together.
std::optional<Pointers> find_pointers(const Core& core, std::uint64_t vector) {
  const Segment* const piece = core.piece_at(vector);
  if (!piece) return std::nullopt;
  const Bytes below = clip(core.dumped_at(piece->start), 0, vector - piece->start);
  std::uint64_t at = below.size();
  const auto previous = [&]() -> std::optional<std::uint64_t> {
    if (at < 8) return std::nullopt;
    at -= 8;
    return load<std::uint64_t>(below, at);
  };
  Pointers pointers;
  if (previous() != std::uint64_t{0}) return std::nullopt;
  for (;;) {
    const auto word = previous();
    if (!word || pointers.environment.size() > kMaxPointers) return std::nullopt;
    if (*word == 0) break;
    pointers.environment.push_back(*word);
  }
  for (;;) {
    const auto word = previous();
    if (!word || pointers.arguments.size() > kMaxPointers) return std::nullopt;
    if (*word == pointers.arguments.size()) break;  // argc
    if (*word < 65536) return std::nullopt;
    pointers.arguments.push_back(*word);
  }
  std::reverse(pointers.environment.begin(), pointers.environment.end());
  std::reverse(pointers.arguments.begin(), pointers.arguments.end());
  return pointers;
}

std::vector<std::string> read_strings(const Core& core, const std::vector<std::uint64_t>& all,
                                      std::size_t& missing) {
  std::vector<std::string> result;
  std::size_t total = 0;
  for (const std::uint64_t address : all) {
    const Bytes bytes = clip(core.dumped_at(address), 0, kMaxString);
    if (bytes.empty() || total > kMaxStrings) {
      ++missing;
      continue;
    }
    result.emplace_back(c_string(bytes, 0));
    total += result.back().size() + 1;
  }
  return result;
}

// The kernel lays the strings end to end. Where they are not so any more, the program has written
// a title over them (setproctitle: ray, vLLM, gunicorn); only the title is left then.
bool lie_end_to_end(const std::vector<std::uint64_t>& pointers,
                    const std::vector<std::string>& strings) {
  for (std::size_t i = 1; i < pointers.size(); ++i) {
    if (pointers[i] != pointers[i - 1] + strings[i - 1].size() + 1) return false;
  }
  return true;
}

// The first environment follows the arguments and ends where the name given to execve() begins. The
// strings stay when setenv() and unsetenv() rewrite the list that points to them.
std::optional<std::vector<std::string>> strings_between(const Core& core, std::uint64_t start,
                                                        std::uint64_t end) {
  if (start >= end || end - start > kMaxStrings) return std::nullopt;
  const Bytes bytes = clip(core.dumped_at(start), 0, end - start);
  if (bytes.size() < end - start || bytes.back() != 0) return std::nullopt;
  std::vector<std::string> result;
  for (std::uint64_t at = 0; at < bytes.size(); at += result.back().size() + 1) {
    result.emplace_back(c_string(bytes, at));
  }
  return result;
}

// Where the arguments end, if they still lie as the kernel put them; else 0.
std::uint64_t take_arguments(Core& core, Pointers& pointers, CommandLine& result,
                             std::size_t& missing) {
  std::vector<std::uint64_t>& where = pointers.arguments;
  // GNU getopt() moves the pointers of options to the front; the strings keep their order.
  std::vector<std::uint64_t> sorted = where;
  std::sort(sorted.begin(), sorted.end());
  std::size_t lost = 0;
  std::vector<std::string> in_order = read_strings(core, sorted, lost);
  if (lost == 0 && lie_end_to_end(sorted, in_order)) {
    result.arguments = std::move(in_order);
    return sorted.empty() ? 0 : sorted.back() + result.arguments.back().size() + 1;
  }
  result.arguments = read_strings(core, where, missing);
  const bool has_title = lost == 0 && result.arguments.size() > 1 && sorted == where &&
                         (where[0] + result.arguments[0].size() + 1 > where[1] ||
                          std::all_of(result.arguments.begin() + 1, result.arguments.end(),
                                      [](const std::string& text) { return text.empty(); }));
  if (!has_title) return 0;
  result.arguments.resize(1);
  core.problems().add(
      "command line",
      "the program wrote a title over its arguments (setproctitle); only the title is left");
  return 0;
}

}  // namespace

CommandLine read_command_line(Core& core) {
  CommandLine result;
  if (const auto name = core.auxv(AT_EXECFN)) {
    result.executable = c_string(clip(core.dumped_at(*name), 0, 4096), 0);
  }
  const auto vector = find_vector(core);
  auto pointers = vector ? find_pointers(core, *vector) : std::nullopt;
  if (!pointers) {
    core.problems().add(
        "command line",
        core.auxv_bytes().empty()
            ? "the core has no auxiliary vector to find the arguments by"
            : "the top of the main stack, which holds the arguments and the first environment, is "
              "not in the core");
    return result;
  }
  std::size_t missing = 0;
  const std::uint64_t end = take_arguments(core, *pointers, result, missing);
  auto untouched =
      end == 0 ? std::nullopt : strings_between(core, end, core.auxv(AT_EXECFN).value_or(0));
  result.environment =
      untouched ? std::move(*untouched) : read_strings(core, pointers->environment, missing);
  std::erase_if(result.environment, [](const std::string& text) { return text.empty(); });
  result.found = true;
  if (missing > 0) {
    core.problems().add("command line", std::to_string(missing) +
                                            " arguments or variables point to memory that is not "
                                            "in the core");
  }
  return result;
}

}  // namespace pm::elfcore
