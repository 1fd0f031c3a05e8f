// What the tracker keeps of one task.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "strace/extract.h"
#include "strace/records.h"
#include "strace/table.h"

namespace pm::strace {

struct Mapping {
  std::uint64_t end = 0;
  std::int32_t description = kNone;
};

using Mappings = std::map<std::uint64_t, Mapping>;

// File mappings of an address space, by their start. After a fork both have them in common until
// one of them changes its own.
class Memory {
 public:
  explicit Memory(Descriptions* of) : descriptions_(of) {}
  Memory(const Memory&) = default;
  Memory& operator=(const Memory&) = delete;

  const Mappings& mappings() const noexcept;
  // Of a range where nothing is mapped; takes over one use of `description`.
  void map(std::uint64_t start, std::uint64_t length, std::int32_t description);
  void unmap(std::uint64_t start, std::uint64_t length);

 private:
  struct Held {
    Mappings mappings;
    Descriptions* descriptions;
    explicit Held(Descriptions* of) : descriptions(of) {}
    Held(const Held& other);
    Held& operator=(const Held&) = delete;
    ~Held();
  };
  // To be changed: they are its own from now on.
  Mappings& own();

  std::shared_ptr<Held> held_;
  Descriptions* descriptions_;
};

// A call of which only the first half has been seen, with what its second half will need.
struct Pending {
  bool is = false;
  Op op = Op::none;
  std::uint16_t call = kUnknownCall;
  std::int64_t a = -1;
  std::int64_t b = -1;
  bool cloexec = false;
  std::string text;
  std::string flags;
  std::string arguments;  // all of them, of the rare calls that are read again when they end
  Opened by;
};

// What a task was told by signals.
struct Signals {
  std::uint32_t sender = 0;  // who sent the last one
  std::string told;          // the last one
  std::string last;          // that a thread of its process was told of; kept by the first one
  std::string fault;         // the last of its process's that names an address; kept so too
  Interruption broken;       // the call that the next signal got it out of
  Interruption alarm;        // the last of its own timer's signals, and the call that it ended
};

class Task {
 public:
  std::uint32_t pid = 0;
  bool named = false;  // its pid is known
  bool live = true;
  std::shared_ptr<Table> table;
  std::shared_ptr<Directory> directory;
  std::shared_ptr<SharedText> root;  // of chroot(); empty where that was not called
  std::shared_ptr<Memory> memory;
  std::uint32_t leader = 0;
  std::uint32_t process = 0;
  Pending pending;
  // The table and directory as they were when a fork began; null while none does.
  std::shared_ptr<Table> fork_table;
  std::shared_ptr<Directory> fork_directory;
  bool fork_started = false;      // its child has shown up
  std::uint64_t fork_number = 0;  // its place in the order of forks; 0: none that has begun
  // The task that made it by a clone3() whose flags the log does not have: what it does first tells
  // whether it is a thread. 0 for all others.
  std::uint32_t perhaps_thread_of = 0;
  // Lives in a pid namespace of its own: the numbers that its calls return are not those of the
  // log, which has them as strace sees them (pid_namespaces(7)).
  bool inner = false;
  std::uint32_t inner_pid = 0;  // its number there; 0 if not known
  bool inner_children = false;  // unshare(CLONE_NEWPID): those that it makes from now on will
  // The last begun call, kept from blocks that are gone.
  std::string begun_line;
  Place begun_place;
  bool begun = false;
  // Made when it is first asked for: a log may have tens of thousands of tasks, of which few are
  // told of a signal.
  Signals& signals();

  // Has open and mapped what the other one has, from now on.
  void share(const Task& other);

 private:
  std::unique_ptr<Signals> signals_;
};

// The arguments of a call that may have ended on another line than it began.
std::string full_arguments(const Task& task, const Event& event);
// The same without a copy where the log has them in one piece; `room` holds them otherwise.
std::string_view full_arguments(const Task& task, const Event& event, std::string& room);

}  // namespace pm::strace
