#include "cpython/locks.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/bytes.h"

namespace pm::cpython {
namespace {

constexpr std::size_t kMaxFrames = 256;
constexpr std::size_t kMaxLocks = 64;      // of one thread
constexpr std::uint64_t kMaxSlots = 1024;  // of one frame
constexpr std::size_t kMaxTable = 1u << 16;
constexpr std::int32_t kMaxBlocks = 20;  // CO_MAXBLOCKS
// struct PyCFunctionObject, the bound method of a built-in type, and PyMethodDescrObject, the one
// that is not bound: the same in 3.8 to 3.15. All these count from the end of a head of 16 bytes
// on; `grown` adds what a free-threaded build has more.
constexpr std::int32_t kMethodDefinition = 16, kMethodSelf = 24, kDescriptorName = 24;
constexpr std::int32_t kLockWord = 16, kOwner = 24, kCount = 32;
// Slots of the innermost frame that are looked at, before and above its value stack.
constexpr std::uint64_t kMostLocals = 64, kMostAbove = 24;
// sizeof lockobject and rlockobject, where they hold a PyMutex and a _PyRecursiveMutex.
constexpr std::int32_t kMutexLock = 24, kMutexRLock = 40;
constexpr unsigned kSmallReferences = 1000;
constexpr std::uint32_t kImmortal = 1u << 30;

// Six bits a byte, the most significant first; InternalDocs/exception_handling.md of CPython.
std::uint64_t read_number(Cursor& cursor) noexcept {
  std::uint64_t value = 0;
  for (unsigned i = 0; i < 6; ++i) {
    const std::uint8_t byte = cursor.u8();
    value = value << 6 | (byte & 63u);
    if (!(byte & 64)) break;
  }
  return value;
}

}  // namespace

// What a handler that covers the instruction would find on the value stack: those slots are live.
// Above them may lie what is in use or what was left behind.
std::uint64_t Locks::depth_by_table(const FramePlace& place) const {
  const auto table =
      heap_.bytes(heap_.pointer(place.code, heap_.layout().code_exception_table), kMaxTable);
  if (!table || place.offset < 0) return 0;
  // `prev_instr` of 3.11 and 3.12 stands at the instruction (in its caches at most), `instr_ptr` of
  // 3.13 likewise while a call is under way.
  const auto unit = static_cast<std::uint64_t>(place.offset) / 2;
  std::uint64_t depth = 0;
  Cursor cursor(*table);
  while (!cursor.at_end()) {
    const std::uint64_t start = read_number(cursor), length = read_number(cursor);
    read_number(cursor);
    const std::uint64_t entry = read_number(cursor) >> 1;
    if (unit >= start && unit - start < length) depth = std::max(depth, entry);
  }
  return cursor.ok() ? depth : 0;
}

// 3.8 to 3.10: the block stack (PyTryBlock: type, handler, level).
std::uint64_t Locks::depth_by_blocks(std::uint64_t frame) const {
  const Layout& at = heap_.layout();
  const auto count = heap_.field<std::int32_t>(frame, at.frame_block_count);
  if (!count || *count <= 0 || *count > kMaxBlocks) return 0;
  std::uint64_t depth = 0;
  for (std::int32_t i = 0; i < *count; ++i) {
    const auto level = heap_.field<std::int32_t>(frame, at.frame_blocks + 12 * i + 8);
    if (level && *level > 0) depth = std::max(depth, static_cast<std::uint64_t>(*level));
  }
  return depth;
}

// A freed object has no references; its first word then leads through the allocator's free list.
bool Locks::alive(std::uint64_t object) const {
  if (head_growth(heap_.layout()) != 0) return alive_unlocked(object);
  const auto references = heap_.get<std::uint64_t>(object);
  if (!references || *references == 0) return false;
  if (!heap_.features().split_refcount) return *references <= kSmallReferences;
  // 3.14: a count of 32 bits, 16 for its overflow, 16 for flags (struct _object).
  const auto count = static_cast<std::uint32_t>(*references);
  const bool overflows = (*references >> 32 & 0xffff) != 0;
  return !overflows && count != 0 && (count <= kSmallReferences || count >= kImmortal);
}

// A free-threaded build counts its owner's references apart from those of other threads, whose
// count stands above two bits (Include/refcount.h, _Py_REF_SHARED_SHIFT).
bool Locks::alive_unlocked(std::uint64_t object) const {
  const auto own = heap_.get<std::uint32_t>(object + 12);
  const auto shared = heap_.get<std::int64_t>(object + 16);
  if (!own || !shared) return false;
  if (*own == UINT32_MAX) return true;  // immortal
  const std::int64_t references = std::int64_t{*own} + (*shared >> 2);
  return references > 0 && references <= std::int64_t{kSmallReferences};
}

std::int32_t Locks::grown(std::int32_t field) const noexcept {
  return field + head_growth(heap_.layout());
}

// 3.14 marks references in frames with bits, and keeps small numbers without an object. 0: none.
std::uint64_t Locks::slot_value(std::uint64_t slot) const {
  const std::uint64_t value = heap_.get<std::uint64_t>(slot).value_or(0);
  if (!heap_.features().tagged_references) return value % 8 == 0 ? value : 0;
  return (value & 3) == 3 ? 0 : value & ~std::uint64_t{7};
}

// Since 3.14 `with` leaves `__exit__` itself on the stack, and the lock above it (LOAD_SPECIAL);
// before, it left the method bound to the lock. The lock; 0: this is no such slot.
std::uint64_t Locks::left_by_exit(std::uint64_t slot) const {
  const std::uint64_t method = slot_value(slot);
  if (!method || !alive(method)) return 0;
  if (!heap_.features().unbound_exit) return bound_to(method, true);
  if (heap_.type_of(method).name != "method_descriptor") return 0;
  if (heap_.text(heap_.pointer(method, grown(kDescriptorName)), 16) != "__exit__") return 0;
  const std::uint64_t self = slot_value(slot + 8);
  return self && alive(self) ? self : 0;
}

bool Locks::is_mutex(const Type& type, bool recursive) const {
  if (!heap_.features().mutex_locks) return false;
  const auto size = heap_.field<std::int64_t>(type.address, heap_.layout().type_basic_size);
  return size == grown(recursive ? kMutexRLock : kMutexLock);
}

// The object that a method of a built-in type is bound to; 0: it is no such method.
std::uint64_t Locks::bound_to(std::uint64_t method, bool only_exit) const {
  if (heap_.type_of(method).name != "builtin_function_or_method") return 0;
  const std::uint64_t definition = heap_.pointer(method, grown(kMethodDefinition));
  const std::uint64_t self = heap_.pointer(method, grown(kMethodSelf));
  if (!only_exit) return self;
  const std::string& type = heap_.type_of(self).name;
  if (type != "_thread.RLock" && type != "_thread.lock") return 0;
  // The name lies in the interpreter's file, which may not be here: what else of a lock's methods
  // could lie in such a slot is hard to say.
  const auto name = heap_.memory().text(heap_.pointer(definition, 0), 16);
  return !name || *name == "__exit__" ? self : 0;
}

std::optional<Lock> Locks::read(std::uint64_t object) const {
  const Type& type = heap_.type_of(object);
  Lock lock;
  lock.recursive = type.name == "_thread.RLock";
  if (!lock.recursive && type.name != "_thread.lock") return std::nullopt;
  lock.object = object;
  const bool mutex = is_mutex(type, lock.recursive);
  lock.word = mutex ? object + static_cast<std::uint64_t>(grown(kLockWord))
                    : heap_.pointer(object, grown(kLockWord));
  if (!lock.word) return std::nullopt;
  // A _PyRecursiveMutex counts only what comes on top of the first acquire().
  const bool owned = mutex ? (heap_.get<std::uint8_t>(lock.word).value_or(0) & 1) != 0
                           : heap_.pointer(object, grown(kCount)) != 0;
  if (lock.recursive && owned) lock.owner = heap_.pointer(object, grown(kOwner));
  for (const ThreadState& thread : threads_) {
    if (lock.owner && thread.ident == lock.owner) lock.owner_tid = thread.tid;
  }
  return lock;
}

std::uint64_t Locks::word_of(std::uint64_t object) const {
  if (!object || !alive(object)) return 0;
  const auto lock = read(object);
  return lock ? lock->word : 0;
}

Locks::Slots Locks::slots_of(const FramePlace& place) const {
  const Layout& at = heap_.layout();
  if (heap_.features().frame_objects) {
    const std::uint64_t frame = place.locals - static_cast<std::uint64_t>(at.frame_locals);
    return {heap_.pointer(frame, at.frame_value_stack), depth_by_blocks(frame)};
  }
  const auto slots = heap_.field<std::int32_t>(place.code, at.code_slots);
  if (!slots || *slots < 0 || *slots > 1 << 20) return {};
  return {place.locals + 8 * static_cast<std::uint64_t>(*slots), depth_by_table(place)};
}

std::vector<HeldLock> Locks::held(const Chain& chain) const {
  std::vector<HeldLock> found;
  const std::size_t count = std::min(chain.frames.size(), kMaxFrames);
  for (std::size_t i = 0; i < count && !heap_.exhausted(); ++i) {
    const Slots slots = slots_of(chain.frames[i]);
    const std::uint64_t depth = std::min(slots.depth, kMaxSlots);
    for (std::uint64_t n = 0; slots.first && n < depth && found.size() < kMaxLocks; ++n) {
      const std::uint64_t self = left_by_exit(slots.first + 8 * n);
      if (const auto lock = self ? read(self) : std::nullopt) {
        found.push_back({*lock, static_cast<std::uint32_t>(i)});
      }
    }
  }
  return found;
}

std::vector<Lock> Locks::at_hand(const Chain& chain) const {
  std::vector<Lock> found;
  if (chain.frames.empty()) return found;
  const FramePlace& place = chain.frames.front();
  const Slots slots = slots_of(place);
  if (slots.first < place.locals) return found;
  const std::uint64_t locals = std::min((slots.first - place.locals) / 8, kMostLocals);
  const std::uint64_t above = std::min(slots.depth, kMaxSlots) + kMostAbove;
  for (std::uint64_t n = 0; n < locals + above && found.size() < kMaxLocks; ++n) {
    const std::uint64_t slot = n < locals ? place.locals + 8 * n : slots.first + 8 * (n - locals);
    const std::uint64_t value = slot_value(slot);
    if (!value || !alive(value)) continue;
    auto lock = read(value);
    if (!lock) {
      const std::uint64_t self = bound_to(value, false);
      if (self && alive(self)) lock = read(self);
    }
    if (lock) found.push_back(*lock);
  }
  return found;
}

}  // namespace pm::cpython
