// Call stacks of the dead process's threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "elfcore/modules.h"
#include "unwind/cfi.h"
#include "unwind/code.h"
#include "unwind/context.h"
#include "unwind/frame_tables.h"
#include "unwind/vdso.h"

namespace pm::unwind {

// How a frame was found, best first.
enum class Trust : std::uint8_t {
  context,  // the registers that the kernel saved
  cfi,      // unwind tables, or the registers that the kernel left in a signal frame
  // Calling convention, checked against the code: the chain of saved frame pointers; the return
  // address where a call leaves it (top of stack, x30) when the call went to a bad address.
  frame_pointer,
  scan,  // a return address found by searching the stack
};

struct Frame {
  std::uint64_t pc = 0;  // a return address unless `exact`
  std::uint64_t sp = 0;
  Trust trust = Trust::context;
  bool exact = false;         // execution stood at `pc`: the innermost frame, or one interrupted
  bool signal_frame = false;  // the trampoline below a signal handler
  // An address inside the instruction that runs: what to look up symbols and lines with.
  std::uint64_t lookup() const noexcept { return exact || pc == 0 ? pc : pc - 1; }
};

struct Stack {
  std::vector<Frame> frames;  // innermost first
  std::string stopped;        // why the walk ended before the outermost frame; empty: it did not
  // A stack longer than the limit keeps both ends: `skipped` frames are missing in front of
  // frames[skipped_at].
  std::uint64_t skipped = 0;
  std::size_t skipped_at = 0;
};

class Unwinder {
 public:
  explicit Unwinder(const elfcore::Memory& memory);

  Stack unwind(const elfcore::ThreadState& thread, std::size_t max_frames);

 private:
  // Where a module's tables are. `bias` turns link-time addresses into run-time ones.
  struct Source {
    FrameTables tables;
    std::uint64_t bias;
  };
  struct Step {
    enum class Kind { found, outermost, failed };
    Kind kind = Kind::failed;
    Context caller{};
    Trust trust = Trust::cfi;
    bool left_signal = false;  // this frame was a signal trampoline
    bool lost = false;         // failed for want of memory in the core
    std::string why;
    static Step fail(std::string why, bool lost = false);
    static Step end();
    static Step to(const Context& caller, Trust trust);
  };

  class Ends;
  std::string walk(Context context, Ends& frames, std::uint64_t& allowance);
  Source* source_at(std::uint64_t address);
  // Cached; null when no table covers the address.
  const Row* row(std::uint64_t address);

  bool was_interrupted(std::uint64_t pc);
  bool is_entry(std::uint64_t address) const;
  Step step(const Context& context, bool exact);
  Step step_by_rules(const Row& row, const Context& context);
  Step step_out_of_signal(const Context& context);
  std::uint64_t signal_frame(std::uint64_t sp) const;
  Step step_from_bad_pc(const Context& context);
  std::optional<Context> step_by_frame_pointer(const Context& context,
                                               std::optional<CallSite>& call) const;
  std::optional<Context> step_by_frame_records(const Context& context) const;
  std::optional<Context> step_to_terminate(const Context& context) const;
  std::optional<Context> step_by_link_register(const Context& context);
  std::optional<Context> step_by_scan(const Context& context, std::uint64_t from);
  std::optional<Context> skipped_caller(const Context& context, const CallSite& outer);
  template <class Accept>
  std::optional<Context> scan(const Context& context, std::uint64_t from, std::uint64_t to,
                              Accept accept);
  std::optional<CallSite> return_address(std::uint64_t word, std::uint64_t sp) const;
  bool goes_on(Context context);
  bool is_called(const Context& context);
  bool calls_into(const CallSite& call, std::uint64_t address);
  std::optional<std::uint64_t> function_start(std::uint64_t address);
  std::optional<std::uint64_t> cfa(const Row& row, const Context& context) const;
  std::string explain_missing_tables(std::uint64_t pc) const;
  std::string explain_missing_memory(std::uint64_t address) const;

  const elfcore::Memory& memory_;
  Code code_;
  Vdso vdso_;
  Budget budget_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Source>> sources_;  // by start of module
  std::unordered_map<std::uint64_t, std::unique_ptr<const Row>> rows_;
  std::unordered_map<std::uint64_t, std::optional<std::uint64_t>> starts_;
};

}  // namespace pm::unwind
