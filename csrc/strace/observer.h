// Who is told of every call while a log is replayed: the exports (calls.h of every log as rows, a
// timeline, stacks). The tracker knows only this.
#pragma once

namespace pm::strace {

class Task;
class Tracker;
struct BlockOrigin;
struct Event;

// Told in the order of the log, by one thread at a time. A call is told before it takes effect, so
// that what the task has open is what the call met.
class Observer {
 public:
  Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  virtual ~Observer() = default;
  // A call that ended, a signal, the end of a task.
  virtual void seen(Tracker& tracker, Task& task, const Event& event,
                    const BlockOrigin& origin) = 0;
  virtual void finished(Tracker& tracker) = 0;
};

}  // namespace pm::strace
