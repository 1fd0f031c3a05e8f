// Layouts: libstdc++-v3/libsupc++/unwind-cxx.h (the same since GCC 4.5) and libcxxabi's
// cxa_exception.h, which agree from the exception's type to the unwind header.
#include "elfcore/cpp_exception.h"

#include <algorithm>
#include <array>
#include <set>
#include <span>

#include "elfcore/abort_message.h"
#include "elfcore/thread_storage.h"
#include "elfcore/thrown_value.h"
#include "elfcore/type_info.h"

namespace pm::elfcore {
namespace {

// Offsets in __cxa_exception; the thrown object follows it.
constexpr std::uint64_t kTypeInfo = 0, kNext = 32, kHandlers = 40, kUnwind = 80, kObject = 112;
// What stands before it: the reference count (libstdc++: an int at -16, libc++abi: a word at -8).
constexpr std::uint64_t kGnuCount = 16, kClangCount = 8;
constexpr std::uint64_t kMaxReferences = 4096;

constexpr std::uint64_t kGnu = 0x474e5543432b2b00;    // "GNUCC++\0"
constexpr std::uint64_t kClang = 0x434c4e47432b2b00;  // "CLNGC++\0"
constexpr std::uint64_t kDependent = 1;               // of another exception: rethrow_exception()

constexpr std::size_t kMaxChain = 32;
constexpr std::size_t kMaxThreads = 4096;
constexpr std::size_t kMaxExceptions = 64;
constexpr std::size_t kStackBytes = 256 << 10;
constexpr std::size_t kTerminateBytes = 64 << 10;
constexpr std::uint64_t kAbortBytes = 1024;  // of a stack, in which abort() has its frame

struct Header {
  std::uint64_t address = 0;  // of the __cxa_exception on the thread's list
  std::uint64_t type = 0;
  std::uint64_t object = 0;
  std::uint64_t next = 0;
  std::int32_t handlers = 0;
};

std::optional<Header> read_header(const Memory& memory, std::uint64_t address) {
  if (address % 8 != 0 || address < 65536) return std::nullopt;
  const auto kind = memory.word(address + kUnwind);
  if (!kind || ((*kind & ~kDependent) != kGnu && (*kind & ~kDependent) != kClang)) {
    return std::nullopt;
  }
  const bool is_gnu = (*kind & ~kDependent) == kGnu;
  Header header;
  header.address = address;
  header.next = memory.word(address + kNext).value_or(0);
  header.handlers = memory.get<std::int32_t>(address + kHandlers).value_or(0);
  header.object = address + kObject;
  if (*kind & kDependent) {
    const auto primary = memory.word(is_gnu ? address : address - kClangCount);
    if (!primary || *primary < 65536) return std::nullopt;
    header.object = *primary;
  }
  const std::uint64_t owner = header.object - kObject;
  // A freed exception keeps its class word; its reference count is gone or overwritten by malloc.
  const std::uint64_t count = is_gnu ? memory.get<std::uint32_t>(owner - kGnuCount).value_or(0)
                                     : memory.word(owner - kClangCount).value_or(0);
  if (count == 0 || count > kMaxReferences) return std::nullopt;
  const auto type = memory.word(owner + kTypeInfo);
  if (!type || *type == 0) return std::nullopt;
  header.type = *type;
  return header;
}

struct Globals {
  bool known = false;
  std::uint64_t caught = 0;
  std::uint32_t uncaught = 0;
};

// struct __cxa_eh_globals { __cxa_exception* caughtExceptions; unsigned int uncaughtExceptions; }
std::optional<Globals> globals_at(const Memory& memory, std::uint64_t address) {
  const auto caught = memory.word(address);
  const auto uncaught = memory.get<std::uint32_t>(address + 8);
  if (!caught || !uncaught || *uncaught > 1000) return std::nullopt;
  if (*caught != 0 && !read_header(memory, *caught)) return std::nullopt;
  return Globals{true, *caught, *uncaught};
}

bool has_eh_globals(const Module& module) {
  return module.image && module.name().starts_with("libstdc++.so");
}

// Within the block, the record is where the exported variables (std::call_once's) are not.
Globals find_globals(const Memory& memory, const Module& module, const ThreadState& thread) {
  const ThreadStorage storage = find_thread_storage(memory, module, thread);
  Globals none;
  none.known = storage.known && storage.blocks.empty();  // no block: no exception yet
  const Elf64_Phdr* const segment = module.image->program_header(PT_TLS);
  if (!segment) return {};
  std::vector<std::uint64_t> taken;
  for (const std::string_view name : {"_ZSt15__once_callable", "_ZSt11__once_call"}) {
    const auto symbol = module.image->dynamic_symbol(name);
    if (symbol && symbol->type == STT_TLS) taken.push_back(symbol->value);
  }
  for (const std::uint64_t block : storage.blocks) {
    for (std::uint64_t at = 0; at + 16 <= std::min<std::uint64_t>(segment->p_memsz, 256); at += 8) {
      const bool is_taken = std::any_of(taken.begin(), taken.end(), [at](std::uint64_t other) {
        return other + 8 > at && other < at + 16;
      });
      if (is_taken) continue;
      if (const auto found = globals_at(memory, block + at)) return *found;
    }
  }
  return none;
}

// The stack of a thread, from its stack pointer on.
Bytes stack_bytes(const Core& core, const ThreadState& thread, std::size_t limit) {
  std::uint64_t sp = thread.registers.sp() & ~std::uint64_t{7};
  if (!core.segment_at(sp)) {  // overflown: the stack begins above
    const Segment* const above = core.segment_above(sp);
    if (!above || above->start - sp > (1u << 20)) return {};
    sp = above->start;
  }
  return clip(core.dumped_at(sp), 0, limit);
}

// Exceptions whose unwind header, or whose object (all that is left of one in libc++abi's frames),
// registers or the stack point to, innermost first. A landing pad keeps the pointer in a register
// while destructors run.
std::vector<Header> scan_stack(const Memory& memory, const ThreadState& thread) {
  std::vector<Header> found;
  std::set<std::uint64_t> seen, objects;
  const Core& core = memory.core();
  const auto look = [&](std::uint64_t word) {
    if (word < 65536 || word % 16 != 0 || !seen.insert(word).second) return;
    const Segment* const segment = core.segment_at(word);
    if (!segment || !(segment->flags & kWrite)) return;
    for (const std::uint64_t part : {kUnwind, kObject}) {
      const auto header = read_header(memory, word - part);
      if (header && objects.insert(header->object).second) found.push_back(*header);
    }
  };
  for (std::size_t i = 0; i < thread.registers.count(); ++i) look(thread.registers.values[i]);
  const Bytes stack = stack_bytes(core, thread, kStackBytes);
  for (std::uint64_t at = 0; at + 8 <= stack.size() && found.size() < kMaxChain; at += 8) {
    look(*load<std::uint64_t>(stack, at));
  }
  return found;
}

using Ranges = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

// The target of the last call in a function.
std::optional<std::uint64_t> last_call(const Memory& memory, std::uint64_t start,
                                       std::uint64_t size) {
  const Bytes code = clip(memory.at(start), 0, std::min<std::uint64_t>(size, 256));
  std::optional<std::uint64_t> target;
  if (memory.core().machine() == Machine::x86_64) {
    for (std::uint64_t at = 0; at + 5 <= code.size(); ++at) {
      if (code[at] != 0xe8) continue;
      const auto distance = static_cast<std::uint64_t>(*load<std::int32_t>(code, at + 1));
      target = start + at + 5 + distance;
    }
    return target;
  }
  for (std::uint64_t at = 0; at + 4 <= code.size(); at += 4) {
    const std::uint32_t word = *load<std::uint32_t>(code, at);
    if ((word & 0xfc000000) != 0x94000000) continue;  // bl
    const auto distance = static_cast<std::int32_t>(word << 6) >> 4;
    target = start + at + static_cast<std::uint64_t>(std::int64_t{distance});
  }
  return target;
}

// Code that only runs when a C++ program ends for want of a handler.
Ranges terminate_functions(const Memory& memory) {
  const Modules& modules = memory.modules();
  constexpr std::array<std::string_view, 3> kFunctions{
      "_ZSt9terminatev", "_ZN9__gnu_cxx27__verbose_terminate_handlerEv", "__cxa_call_terminate"};
  Ranges ranges;
  for (const Module& module : modules.all()) {
    const std::string_view name = module.name();
    const bool has_runtime = name.starts_with("libstdc++.so") || name.starts_with("libc++");
    if (!module.image || !(has_runtime || &module == modules.executable())) continue;
    for (const std::string_view function : kFunctions) {
      const auto symbol = module.image->dynamic_symbol(function);
      if (!symbol || symbol->type != STT_FUNC) continue;
      const std::uint64_t start = module.bias + symbol->value;
      ranges.emplace_back(start, start + symbol->size);
      if (function != kFunctions.front()) continue;
      // __terminate(), which has no symbol: a throw out of a noexcept function comes to it without
      // std::terminate(), and the handler that it calls may stand in a cold section.
      constexpr std::uint64_t kSize = 32;
      const auto inner = last_call(memory, start, symbol->size);
      if (inner && module.contains(*inner)) ranges.emplace_back(*inner, *inner + kSize);
    }
  }
  return ranges;
}

bool is_runtime(const Module& module) {
  return module.name().starts_with("libstdc++.so") || module.name().starts_with("libc++");
}

// Whether slots of a stack lead into a run-time library.
bool leads_into_runtime(const Memory& memory, std::uint64_t slot, std::uint64_t second,
                        std::uint64_t third) {
  for (const std::uint64_t at : {slot, slot + second, slot + third}) {
    const std::uint64_t address = memory.word(at).value_or(0);
    const Segment* const segment = memory.core().segment_at(address);
    const Module* const module = memory.modules().at(address);
    if (!module || !is_runtime(*module) || !segment || !(segment->flags & kExecute)) return false;
  }
  return true;
}

// The same of a program's own handler of std::terminate(), where a throw stands right outside.
bool has_own_handler(const Memory& memory, std::uint64_t sp) {
  for (std::uint64_t slot = sp; slot < sp + kAbortBytes; slot += 8) {
    if (leads_into_runtime(memory, slot, 16, 32)) return true;
  }
  return false;
}

bool is_terminating(const Memory& memory, const ThreadState& thread) {
  const Ranges ranges = terminate_functions(memory);
  if (ranges.empty()) {  // no symbols to tell by
    const auto& all = memory.modules().all();
    const bool is_linked = std::any_of(all.begin(), all.end(), is_runtime);
    const std::uint64_t sp = thread.registers.sp() & ~std::uint64_t{7};
    // Elsewhere an abort with an exception at hand is std::terminate() nearly always.
    return may_have_aborted(memory, &thread) &&
           (!is_linked || memory.core().machine() != Machine::x86_64 ||
            find_terminate(memory, sp) || has_own_handler(memory, sp));
  }
  const Bytes stack = stack_bytes(memory.core(), thread, kTerminateBytes);
  for (std::uint64_t at = 0; at + 8 <= stack.size(); at += 8) {
    // A call of a function that does not return may be the last instruction of its caller.
    const std::uint64_t call = *load<std::uint64_t>(stack, at) - 1;
    for (const auto& [start, end] : ranges) {
      if (call >= start && call < end) return true;
    }
  }
  return false;
}

class Search {
 public:
  Search(const Memory& memory, Problems& problems)
      : memory_(memory), problems_(problems), types_(memory) {
    for (const Module& module : memory.modules().all()) {
      if (has_eh_globals(module)) runtimes_.push_back(&module);
    }
  }

  std::vector<CppException> run() {
    const Core& core = memory_.core();
    const ThreadState* const crashed = core.crashed_thread();
    if (crashed) look_at(*crashed, true);
    std::size_t count = 0;
    for (const ThreadState& thread : core.threads()) {
      if (&thread != crashed && ++count <= kMaxThreads) look_at(thread, false);
    }
    return std::move(result_);
  }

 private:
  void look_at(const ThreadState& thread, bool is_crashed) {
    bool known = false;
    std::uint32_t flying = 0;
    std::set<std::uint64_t> listed;
    for (const Module* const module : runtimes_) {
      const Globals globals = find_globals(memory_, *module, thread);
      known |= globals.known;
      flying += globals.uncaught;
      take_chain(thread, globals.caught, is_crashed, listed);
    }
    if (!is_crashed) return;
    // Not on the list until a handler has it: one that was on its way when a destructor crashed or
    // threw another.
    if (!listed.empty()) {
      take_flying(thread, flying, listed);
      return;
    }
    // A record that says "none" is believed unless the thread is unwinding now, or another copy of
    // the run-time library (linked statically somewhere) may have thrown.
    const bool any_state = !known || flying > 0;
    if (!any_state && !may_have_aborted(memory_, &thread)) return;
    const bool ends = is_terminating(memory_, thread);
    for (const Header& header : scan_stack(memory_, thread)) {
      if (header.handlers == 0 && !any_state) continue;
      const bool is_flying = flying > 0 && header.handlers == 0;
      if (is_flying) --flying;
      const bool is_last = ends && result_.empty();
      add(thread, header, "stack", is_last ? "uncaught" : is_flying ? "unwinding" : "handled");
    }
  }

  void take_flying(const ThreadState& thread, std::uint32_t flying,
                   const std::set<std::uint64_t>& listed) {
    if (flying == 0) return;
    for (const Header& header : scan_stack(memory_, thread)) {
      if (header.handlers != 0 || listed.contains(header.object)) continue;
      add(thread, header, "stack", "unwinding");
      if (--flying == 0) return;
    }
  }

  void take_chain(const ThreadState& thread, std::uint64_t address, bool is_crashed,
                  std::set<std::uint64_t>& listed) {
    std::set<std::uint64_t> seen;
    while (address != 0 && seen.size() < kMaxChain && seen.insert(address).second) {
      const auto header = read_header(memory_, address);
      if (!header) break;
      const bool ends = is_crashed && listed.empty() && is_terminating(memory_, thread);
      add(thread, *header, "tls", ends ? "uncaught" : "handled");
      listed.insert(header->object);
      address = header->next;
    }
  }

  void add(const ThreadState& thread, const Header& header, const char* found_by,
           const char* state) {
    if (result_.size() >= kMaxExceptions) return;
    const std::vector<BaseClass> classes = types_.classes(header.type, header.object);
    if (classes.empty()) {
      const Module* const module = memory_.modules().at(header.type);
      problems_.add("C++ exception",
                    "thread " + std::to_string(thread.tid) +
                        " has one whose type cannot be read: it is defined in " +
                        (module ? module->path : "memory that is not in the core"),
                    "give the same build of that file (--sysroot)");
      if (std::string_view(state) != "uncaught") return;  // what ended the process is told still
    }
    CppException row;
    row.tid = thread.tid;
    row.type = classes.empty() ? "(unknown type)" : type_name(classes.front().name);
    row.what = read_what(memory_, types_, header.type, header.object, classes);
    row.found_by = found_by;
    row.state = state;
    for (const BaseClass& base : std::span(classes).subspan(classes.empty() ? 0 : 1)) {
      const std::string name = type_name(base.name);
      if (std::find(row.base_types.begin(), row.base_types.end(), name) == row.base_types.end()) {
        row.base_types.push_back(name);
      }
    }
    result_.push_back(std::move(row));
  }

  const Memory& memory_;
  Problems& problems_;
  TypeReader types_;
  std::vector<const Module*> runtimes_;
  std::vector<CppException> result_;
};

}  // namespace

std::optional<std::uint64_t> find_terminate(const Memory& memory, std::uint64_t sp) {
  sp &= ~std::uint64_t{7};
  for (std::uint64_t slot = sp; slot < sp + kAbortBytes; slot += 8) {
    if (leads_into_runtime(memory, slot, 48, 64)) return slot;
  }
  return std::nullopt;
}

std::vector<CppException> find_cpp_exceptions(const Memory& memory, Problems& problems) {
  return Search(memory, problems).run();
}

}  // namespace pm::elfcore
