#include "cpython/python.h"

#include <algorithm>
#include <utility>

#include "cpython/exceptions.h"
#include "cpython/frames.h"
#include "cpython/greenlets.h"
#include "cpython/locks.h"
#include "cpython/runtime.h"
#include "cpython/tasks.h"
#include "cpython/threads.h"

namespace pm::cpython {
namespace {

bool type_names_missing(const Heap& heap, const ThreadState& state) {
  return heap.type_of(heap.pointer(state.interpreter, heap.layout().interp_modules)).name != "dict";
}

Thread read_thread(const Heap& heap, const ThreadState& state, const Frames& frames,
                   const Exceptions& exceptions, const Locks& locks, const Options& options) {
  Thread thread;
  thread.tid = state.tid;
  const Chain chain = frames.walk(state.address);
  frames.describe(chain, options, thread);
  thread.held = locks.held(chain);
  thread.at_hand = locks.at_hand(chain);
  if (!chain.frames.empty()) {
    thread.receiver = heap.get<std::uint64_t>(chain.frames.front().locals).value_or(0);
  }
  thread.raised = exceptions.raised(state.address);
  thread.handled = exceptions.handled(state.address);
  return thread;
}

}  // namespace

PythonState read_python(const elfcore::Memory& memory, const Options& options) {
  PythonState result;
  const auto runtime = find_runtime(memory, result.problems);
  if (!runtime) return result;
  result.found = true;
  result.version = runtime->exact_version ? version_text(runtime->version)
                                          : "3." + std::to_string(runtime->version.minor());
  result.library = runtime->library;
  Heap heap(memory, runtime->layout, runtime->version);
  Codes codes(heap);
  const Frames frames(heap, codes);
  const Exceptions exceptions(heap, codes, frames);
  const std::vector<ThreadState> states = read_threads(heap, *runtime, result.problems);
  if (states.empty()) {
    result.problems.add(runtime->library,
                        "the Python interpreter has no thread: it had not begun, "
                        "or was finished");
  }
  // A slim core is watched while it is made: who reads it may not have the interpreter's file,
  // which has the names now.
  const bool watched = memory.core().watch() != nullptr;
  if (!states.empty() && (watched || type_names_missing(heap, states.front()))) {
    heap.learn_type_names(heap.pointer(states.front().interpreter, heap.layout().interp_modules));
  }
  const auto objects = read_thread_objects(heap, states);
  const auto gils = read_gils(heap, *runtime);
  const auto holders = read_gil_holders(heap, gils, states);
  if (!gils.empty()) {
    result.gil = gils.back();
    result.gil_enabled = is_gil_enabled(heap, gils.back());
  }
  const Locks locks(heap, states);
  for (const ThreadState& state : states) {
    Thread thread = read_thread(heap, state, frames, exceptions, locks, options);
    thread.holds_gil = std::find(holders.begin(), holders.end(), state.address) != holders.end();
    if (thread.holds_gil && state.tid && !result.gil_holder) result.gil_holder = state.tid;
    if (const auto object = objects.find(state.ident); object != objects.end()) {
      thread.name = object->second.name;
      thread.object = object->second.address;
      thread.end_word = locks.word_of(object->second.end_lock);
    }
    result.threads.push_back(std::move(thread));
  }
  const Tasks tasks(heap, frames, options);
  Greenlets greenlets(heap, frames, options);
  std::uint64_t last = 0;
  for (const ThreadState& state : states) {
    if (std::exchange(last, state.interpreter) == state.interpreter) continue;
    for (AsyncTask& task : tasks.read(state.interpreter, states, result.problems)) {
      result.tasks.push_back(std::move(task));
    }
    for (Greenlet& one : greenlets.read(state.interpreter, states, result.problems)) {
      result.greenlets.push_back(std::move(one));
    }
  }
  if (heap.exhausted()) {
    result.problems.add(runtime->library,
                        "reading its objects took more steps than allowed; the Python stacks are "
                        "not complete (damaged memory?)");
  }
  return result;
}

}  // namespace pm::cpython
