#include "cpython/tasks.h"

#include <algorithm>
#include <array>
#include <string>
#include <unordered_set>

namespace pm::cpython {
namespace {

constexpr std::size_t kMaxTasks = 10'000;
constexpr std::size_t kMaxAwaits = 500;
constexpr std::size_t kMaxName = 200;
constexpr std::size_t kMaxChildren = 1000;
constexpr std::uint64_t kMaxWords = 64;  // of a task
constexpr std::int32_t kMaxStack = 1 << 16;
constexpr std::uint64_t kMaxModuleData = 4u << 20;  // of a module's writable data

}  // namespace

// 3.11 has one weak set; since 3.12 tasks that started eagerly stand in a plain one until they
// wait for the first time, when they come into the weak one. Since 3.14 tasks of asyncio's own
// class stand in a list of their thread, or of the interpreter when that has ended.
std::vector<std::uint64_t> Tasks::all(std::uint64_t interpreter,
                                      const std::vector<ThreadState>& threads) const {
  std::vector<std::uint64_t> found;
  const std::uint64_t modules = heap_.pointer(interpreter, heap_.layout().interp_modules);
  // A module's dict is its first field (PyModuleObject.md_dict).
  const std::uint64_t names =
      heap_.pointer(heap_.lookup(modules, "asyncio.tasks"), heap_.layout().object_head);
  for (const std::string_view name : {"_scheduled_tasks", "_all_tasks"}) {
    const std::uint64_t members = heap_.attribute(heap_.lookup(names, name), "data");
    heap_.each_member(members, [&](std::uint64_t reference) {
      // PyWeakReference.wr_object, its first field.
      const std::uint64_t task = heap_.pointer(reference, heap_.layout().object_head);
      if (task) found.push_back(task);
      return found.size() <= kMaxTasks;
    });
  }
  if (!names || !heap_.features().tagged_references) return found;
  if (const auto at = lists(heap_.lookup(names, "Task"))) {
    for (const ThreadState& thread : threads) {
      if (thread.interpreter != interpreter) continue;
      add_listed(thread.address + at->of_thread, at->node, found);
    }
    add_listed(interpreter + at->of_interpreter, at->node, found);
  }
  return found;
}

// By the section `.AsyncioDebug` of the extension module, or of an interpreter that has it built
// in; without the file by content, as a core holds the module's writable data.
std::optional<Tasks::Lists> Tasks::lists(std::uint64_t task_type) const {
  const auto size = heap_.field<std::uint64_t>(task_type, heap_.layout().type_basic_size);
  if (!size) return std::nullopt;
  for (const elfcore::Module& module : heap_.memory().modules().all()) {
    const std::string_view name = module.name();
    if (!name.starts_with("_asyncio") && !name.starts_with("python") &&
        !name.starts_with("libpython")) {
      continue;
    }
    if (module.image) {
      const auto section = module.image->section(".AsyncioDebug");
      if (!section) continue;
      if (const auto found = lists_at(module.bias + section->address, *size)) return found;
    }
    for (const elfcore::Segment& segment : heap_.memory().core().segments()) {
      if (!(segment.flags & elfcore::kWrite) || segment.start < module.start ||
          segment.start >= module.end) {
        continue;
      }
      const Bytes data = clip(heap_.memory().core().dumped_at(segment.start), 0, kMaxModuleData);
      for (std::uint64_t offset = 0; offset + 8 <= data.size(); offset += 8) {
        if (load<std::uint64_t>(data, offset) != size) continue;
        if (const auto found = lists_at(segment.start + offset, *size)) return found;
      }
    }
  }
  return std::nullopt;
}

// Of the task: its size, name, awaited_by, is_task, awaited_by_is_set, coroutine, node; of the
// interpreter: size, head; of the thread: size, running loop, running task, head.
std::optional<Tasks::Lists> Tasks::lists_at(std::uint64_t address, std::uint64_t task_size) const {
  std::array<std::uint64_t, 13> words{};
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] = heap_.get<std::uint64_t>(address + 8 * i).value_or(0);
  }
  if (words[0] != task_size) return std::nullopt;
  for (std::size_t i = 1; i < 7; ++i) {
    if (words[i] < 16 || words[i] >= words[0]) return std::nullopt;
  }
  const Lists found{words[6], words[8], words[12]};
  const bool aligned = (found.node | found.of_interpreter | found.of_thread) % 8 == 0;
  // The head is the last of what a thread knows of asyncio: loop, task, list.
  const bool neighbours = words[11] == words[10] + 8 && words[12] == words[11] + 8;
  const bool inside = found.of_interpreter < words[7] && found.of_thread < words[9];
  return aligned && neighbours && inside ? std::optional(found) : std::nullopt;
}

// A `struct llist_node`: next, previous. An empty list, and the end of one, lead back to the head.
void Tasks::add_listed(std::uint64_t head, std::uint64_t node,
                       std::vector<std::uint64_t>& found) const {
  std::uint64_t at = heap_.get<std::uint64_t>(head).value_or(0);
  for (std::size_t steps = 0; at && at != head && steps <= kMaxTasks; ++steps) {
    found.push_back(at - node);
    at = heap_.get<std::uint64_t>(at).value_or(0);
  }
}

bool Tasks::is_generator(const Type& type) const {
  return type.name == "coroutine" || type.name == "generator" || type.name == "async_generator";
}

// TaskObj of Modules/_asynciomodule.c has task_fut_waiter, task_coro and task_name side by side;
// where they stand differs with the version, and the type of the coroutine tells it. task_loop is
// the first field. Tasks written in Python have attributes.
Tasks::Parts Tasks::parts_of(std::uint64_t task) const {
  Parts parts;
  const std::int32_t head = heap_.layout().object_head;
  const auto size =
      heap_.field<std::int64_t>(heap_.type_of(task).address, heap_.layout().type_basic_size);
  if (!size || *size <= head) return parts;
  const std::uint64_t words =
      std::min(static_cast<std::uint64_t>(*size - head) / 8, std::uint64_t{kMaxWords});
  const auto word = [&](std::uint64_t i) {
    return heap_.pointer(task, head + 8 * static_cast<std::int32_t>(i));
  };
  for (std::uint64_t i = 1; i + 1 < words; ++i) {
    if (is_generator(heap_.type_of(word(i)))) parts = {word(i), word(i - 1), word(i + 1), word(0)};
  }
  if (!parts.coroutine) {
    parts = {heap_.attribute(task, "_coro"), heap_.attribute(task, "_fut_waiter"),
             heap_.attribute(task, "_name"), heap_.attribute(task, "_loop")};
  }
  return parts;
}

// A generator ends in its frame, and its basic size counts that up to the frame's variables
// (PyGenObject.gi_iframe).
std::uint64_t Tasks::frame_in(std::uint64_t generator, const Type& type) const {
  const Layout& at = heap_.layout();
  const auto size = heap_.field<std::int64_t>(type.address, at.type_basic_size);
  if (!size || *size <= at.iframe_locals || *size > 1 << 12) return 0;
  return generator + static_cast<std::uint64_t>(*size - at.iframe_locals);
}

// What `await` left on top of a frame's value stack; 0: the frame runs, or has not begun. Since
// 3.14 the frame has a pointer behind the top, and references have tags; before, the depth
// (`stacktop`) stands right before the variables.
std::uint64_t Tasks::awaited_by(std::uint64_t frame) const {
  const Layout& at = heap_.layout();
  if (at.iframe_stack >= 0) {
    const std::uint64_t top = heap_.pointer(frame, at.iframe_stack);
    return top ? heap_.pointer(top - 8, 0) & ~std::uint64_t{3} : 0;
  }
  const auto depth = heap_.field<std::int32_t>(frame, at.iframe_locals - 8);
  if (!depth || *depth <= 0 || *depth > kMaxStack) return 0;
  return heap_.pointer(frame, at.iframe_locals + 8 * (*depth - 1));
}

// From the task's own coroutine to the innermost one, which comes first.
Chain Tasks::walk(std::uint64_t coroutine, bool& running) const {
  Chain chain;
  const std::int32_t head = heap_.layout().object_head;
  for (std::size_t steps = 0; coroutine && steps < kMaxAwaits; ++steps) {
    const Type type = heap_.type_of(coroutine);
    if (type.name == "coroutine_wrapper" || type.name.starts_with("async_generator_a")) {
      coroutine = heap_.pointer(coroutine, head);  // whom it drives is its first field
      continue;
    }
    if (!is_generator(type)) break;
    const std::uint64_t frame = frame_in(coroutine, type);
    // gi_frame_state stands before the frame, and padding between them: below 0 it waits or has
    // not begun, 0 it runs, above it has ended.
    const auto state = frame ? heap_.get<std::int8_t>(frame - 5) : std::nullopt;
    if (!state || *state > 0) break;
    const auto place = frames_.place_in(frame);
    if (!place) break;
    chain.frames.insert(chain.frames.begin(), *place);
    running = *state == 0;
    coroutine = running ? 0 : awaited_by(frame);
  }
  return chain;
}

void Tasks::add_waiter(std::uint64_t waiter, AsyncTask& task) const {
  const Type& type = heap_.type_of(waiter);
  if (type.address == 0 || type.name == "NoneType") return;
  task.waits_on = type.name.substr(type.name.rfind('.') + 1);
  task.waits_for.push_back(waiter);
  const std::uint64_t children = heap_.attribute(waiter, "_children");  // asyncio.gather()
  if (!heap_.type_of(children).is(kList)) return;
  const std::uint64_t items = heap_.pointer(children, heap_.layout().list_items);
  for (std::uint64_t i = 0; i < heap_.size(children, kMaxChildren); ++i) {
    task.waits_for.push_back(heap_.get<std::uint64_t>(items + 8 * i).value_or(0));
  }
}

// Whether nothing of the loop itself can wake its tasks: no call is due, now or later, and it
// watches no descriptor and no signal but its own waking pipe (BaseEventLoop, BaseSelectorEventLoop
// and _BaseSelectorImpl of CPython's own asyncio). Lists, dicts and deques count their members in
// the word behind their head.
bool Tasks::has_nothing_due(std::uint64_t loop) const {
  const auto count = [&](std::uint64_t object, std::string_view name, std::string_view type) {
    const std::uint64_t found = heap_.attribute(object, name);
    const Type& is = heap_.type_of(found);
    // A type of an extension module, whose name is in its file alone, may have none here.
    const bool known = found && (is.name.empty() || is.name.ends_with(type));
    return known ? heap_.field<std::int64_t>(found, heap_.layout().object_head) : std::nullopt;
  };
  const std::uint64_t selector = heap_.attribute(loop, "_selector");
  return count(loop, "_ready", "deque") == 0 && count(loop, "_scheduled", "list") == 0 &&
         count(loop, "_signal_handlers", "dict") == 0 && selector &&
         count(selector, "_fd_to_key", "dict") == 1;
}

std::vector<AsyncTask> Tasks::read(std::uint64_t interpreter,
                                   const std::vector<ThreadState>& threads,
                                   Problems& problems) const {
  std::vector<AsyncTask> result;
  if (heap_.features().frame_objects || heap_.features().base_frame) return result;
  std::unordered_set<std::uint64_t> seen;
  std::uint64_t loop = 0;
  bool nothing_due = false;
  for (const std::uint64_t object : all(interpreter, threads)) {
    if (result.size() >= kMaxTasks) {
      problems.add("asyncio", "more than " + std::to_string(kMaxTasks) + " tasks: the first ones");
      break;
    }
    if (!seen.insert(object).second) continue;
    const Parts parts = parts_of(object);
    AsyncTask task;
    Thread described;
    frames_.describe(walk(parts.coroutine, task.running), options_, described);
    if (described.frames.empty()) continue;
    task.object = object;
    task.frames = std::move(described.frames);
    // Names that nobody chose are numbers since 3.12.
    const auto number = heap_.integer(parts.name);
    task.name =
        number ? "Task-" + std::to_string(*number) : heap_.text(parts.name, kMaxName).value_or("");
    if (!task.running) add_waiter(parts.waiter, task);
    const auto ident = heap_.integer(heap_.attribute(parts.loop, "_thread_id"));
    for (const ThreadState& thread : threads) {
      if (ident && static_cast<std::uint64_t>(*ident) == thread.ident) task.tid = thread.tid;
    }
    if (parts.loop != loop) {  // most have the same one
      loop = parts.loop;
      nothing_due = has_nothing_due(loop);
    }
    task.nothing_due = nothing_due && !task.running && task.tid;
    result.push_back(std::move(task));
  }
  return result;
}

}  // namespace pm::cpython
