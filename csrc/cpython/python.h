// What the Python interpreter of a dead process was doing: threads, stacks, exceptions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "elfcore/modules.h"

namespace pm::cpython {

struct Options {
  bool locals = false;
  std::size_t max_frames = 2048;  // of one thread
  bool greenlets = true;          // found by a walk over all objects
};

struct Frame {
  std::string function;  // qualified since 3.11
  std::string file;
  std::optional<std::int32_t> line;
  // Evaluator calls (`_PyEval_EvalFrameDefault` on the C stack) that end between this frame and
  // its caller. 0: the caller's evaluator runs this frame too (3.11 and later). More than 1: then
  // come evaluators that run no frame any more (a destructor called while a frame is left).
  unsigned evaluators = 0;
  std::vector<std::pair<std::string, std::string>> locals;
};

struct TracebackLine {
  std::string file;
  std::string function;
  std::optional<std::int32_t> line;
};

struct LinkedException {
  bool cause = false;  // `raise ... from`; else the one during whose handling it was raised
  std::string type;
  std::string message;
};

struct Exception {
  std::string type;
  std::string message;
  std::vector<TracebackLine> traceback;  // outermost first, as Python prints it
  std::uint64_t traceback_skipped = 0;   // left out of the middle
  std::vector<LinkedException> chain;    // from it back to the first
};

// A `threading.Lock` or `RLock`.
struct Lock {
  std::uint64_t object = 0;
  std::uint64_t word = 0;      // what waiting threads wait on
  bool recursive = false;      // an RLock: it names the thread that holds it
  std::uint64_t owner = 0;     // of an RLock, what threading.get_ident() says; 0: nobody holds it
  std::int32_t owner_tid = 0;  // 0: that is no thread of the core
};

// A lock that a `with` statement has taken.
struct HeldLock : Lock {
  std::uint32_t frame = 0;  // index in the thread's frames, all of them
};

struct Thread {
  std::int32_t tid = 0;  // 0: no thread of the core
  std::string name;      // threading.Thread.name; empty: threading does not know the thread
  bool holds_gil = false;
  std::vector<Frame> frames;  // innermost first
  // Evaluators that run no frame, in front of the innermost frame.
  unsigned idle_evaluators = 0;
  std::uint64_t skipped = 0;  // frames left out in front of frames[skipped_at]
  std::size_t skipped_at = 0;
  std::vector<HeldLock> held;
  std::vector<Lock> at_hand;  // that the innermost frame works with: it may wait for one of them
  // The lock that is released when the thread ends, as Thread.join() waits for it (3.8 to 3.12).
  std::uint64_t end_word = 0;
  std::uint64_t object = 0;          // its threading.Thread; 0: not known
  std::uint64_t receiver = 0;        // first argument of the innermost frame: `self` in a method
  std::string stopped;               // why the chain of frames ended early; empty: it did not
  std::optional<Exception> raised;   // on its way to a handler
  std::optional<Exception> handled;  // an `except` or `finally` block deals with it
};

// A task of asyncio that has not ended.
struct AsyncTask {
  std::uint64_t object = 0;
  std::string name;
  std::int32_t tid = 0;       // of the thread that runs its loop; 0: not known, or none does
  bool running = false;       // its innermost frame is on that thread's stack
  std::vector<Frame> frames;  // from what it awaits to its own coroutine
  std::string waits_on;       // type of the future that wakes it: "Future", "Task"; empty: none
  std::vector<std::uint64_t> waits_for;  // that future, and for gather() what it gathers
  bool nothing_due = false;  // its loop has nothing to do, and waits for nothing from outside
};

// A greenlet that is switched out.
struct Greenlet {
  std::uint64_t object = 0;
  std::string name;           // its attribute `name`; empty: it has none
  std::string type;           // "greenlet", "Greenlet" (gevent), "Hub"
  bool main = false;          // what the thread itself began with
  std::int32_t tid = 0;       // of its thread; 0: not known
  std::vector<Frame> frames;  // innermost first
};

struct PythonState {
  bool found = false;
  std::string version;  // "3.11.7"
  std::string library;  // the module that holds the runtime
  std::optional<std::int32_t> gil_holder;
  std::uint64_t gil = 0;    // address of the main interpreter's GIL; 0: not known
  bool gil_enabled = true;  // false: a free-threaded interpreter, and nobody switched its GIL on
  std::vector<Thread> threads;
  std::vector<AsyncTask> tasks;
  std::vector<Greenlet> greenlets;
  Problems problems;
};

// `found` is false when the process ran no Python, or none that can be read: then `problems` says
// which.
PythonState read_python(const elfcore::Memory& memory, const Options& options);

}  // namespace pm::cpython
