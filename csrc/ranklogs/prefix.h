// Who wrote a line of a log that many processes share: the prefixes that launchers put before it.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

namespace pm::ranklogs {

// What the prefixes of one line say. Views lie in the line. -1: they do not say.
struct Prefix {
  std::string_view host;     // torchrun's role, pdsh's node, docker's service
  std::string_view pod;      // kubectl: pod/name/container
  std::string_view worker;   // Ray: name and ip, without the pid
  std::string_view section;  // the file of which tail, or head, shows this part
  std::int64_t local = -1;   // torchrun --tee
  std::int64_t rank = -1;    // torch's excepthook, mpirun
  std::int64_t task = -1;    // srun --label
  std::int64_t pid = -1;     // Ray
  char stream = 0;           // of mpirun's tags: 'o' standard output, 'e' standard error
  bool record = false;       // of a logger, which leaves the other lines of its record without
  std::size_t size = 0;      // bytes before the text

  bool any() const noexcept {
    return local >= 0 || rank >= 0 || task >= 0 || pid >= 0 || !host.empty() || !pod.empty() ||
           !worker.empty() || !section.empty();
  }
};

// What a logger puts before each line of a record.
struct RecordHead {
  std::size_t size = 0;
  bool error = false;
  bool survived = false;  // a traceback in it is one that its program has logged, and survived
};

// Which forms stand before the lines of one log. Those that a program may print itself ("12: ",
// "name: ", "[x:0] ", a time) count only where most lines have them: a log votes, never a line.
struct Grammar {
  bool task = false;        // "12: " srun --label
  bool node = false;        // "node7: " pdsh, clush -L, DeepSpeed
  bool tee = false;         // "[host:0] " torchrun before 1.13
  bool number = false;      // "[3] " mpiexec -prepend-rank
  bool service = false;     // "trainer-0  | " docker compose
  bool journal = false;     // "Nov 21 20:28:01 node7 train[4711]: " journald, syslog
  bool pids = false;        // there, of several processes
  bool blank_tags = false;  // "[1,3]<stderr>: " of Open MPI 5, which has a blank there
  bool time = false;        // a time before all else, of docker, kubectl or journald
  std::set<std::string, std::less<>> names;  // of nodes and services, digits taken out
  std::string shape;    // what stands before the frames of tracebacks, see masked(); any other form
  bool levels = false;  // a logger's level stands behind the shape, of each line, and then:
  std::string behind_level;
  std::size_t shape_rank = std::string::npos;  // which of its bytes stands for a rank

  Prefix parse(std::string_view line) const;
  // The same where the first `known.size` bytes of the line are known to be these prefixes.
  Prefix parse_behind(const Prefix& known, std::string_view line) const;
  // The head of a piece of which is known who wrote it.
  RecordHead record_head(std::string_view text) const noexcept;

 private:
  void take_prefixes(std::string_view& text, Prefix& found) const;
};

// Open MPI 4 writes its tag, and a time before it, in front of each write(), not of each line:
// "[1,0]<stderr>:step 3[1,0]<stderr>:". Returns the first such tag inside of a text: where it
// stands and how long it is, with its rank; a size of 0 where there is none.
struct InnerTag {
  std::size_t at = 0;
  std::size_t size = 0;
  std::int64_t rank = -1;
};
InnerTag inner_tag(std::string_view text) noexcept;

// Reads a sample of a log, whole lines, and returns the forms that it uses.
Grammar vote(std::string_view sample);

}  // namespace pm::ranklogs
