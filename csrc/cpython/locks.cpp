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
// struct PyCFunctionObject, the bound method of a built-in type: the same in 3.8 to 3.13.
constexpr std::int32_t kMethodDefinition = 16, kMethodSelf = 24;
constexpr std::int32_t kLockWord = 16;

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
std::uint64_t HeldLocks::depth_by_table(const FramePlace& place) const {
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
std::uint64_t HeldLocks::depth_by_blocks(std::uint64_t frame) const {
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

void HeldLocks::add(std::uint64_t object, std::uint32_t number, std::vector<HeldLock>& out) const {
  // A freed object has no references; its first word then leads through the allocator's free list.
  const auto references = heap_.get<std::uint64_t>(object);
  if (!references || *references == 0 || *references > 1000) return;
  if (heap_.type_of(object).name != "builtin_function_or_method") return;
  const std::uint64_t definition = heap_.pointer(object, kMethodDefinition);
  const std::uint64_t self = heap_.pointer(object, kMethodSelf);
  const std::string& type = heap_.type_of(self).name;
  const bool recursive = type == "_thread.RLock";
  if (!recursive && type != "_thread.lock") return;
  if (heap_.memory().text(heap_.pointer(definition, 0), 16) != "__exit__") return;
  HeldLock row;
  row.object = self;
  row.word = heap_.pointer(self, kLockWord);
  row.recursive = recursive;
  row.frame = number;
  if (row.word) out.push_back(row);
}

void HeldLocks::read_frame(const FramePlace& place, std::uint32_t number,
                           std::vector<HeldLock>& out) const {
  const Layout& at = heap_.layout();
  std::uint64_t first = place.locals, depth = 0;
  if (heap_.version().minor() <= 10) {
    const std::uint64_t frame = place.locals - static_cast<std::uint64_t>(at.frame_locals);
    first = heap_.pointer(frame, at.frame_value_stack);
    depth = depth_by_blocks(frame);
  } else {
    const auto slots = heap_.field<std::int32_t>(place.code, at.code_slots);
    if (!slots || *slots < 0 || *slots > 1 << 20) return;
    first += 8 * static_cast<std::uint64_t>(*slots);
    depth = depth_by_table(place);
  }
  depth = std::min(depth, kMaxSlots);
  for (std::uint64_t i = 0; first && i < depth && out.size() < kMaxLocks; ++i) {
    if (const auto value = heap_.get<std::uint64_t>(first + 8 * i)) add(*value, number, out);
  }
}

std::vector<HeldLock> HeldLocks::read(const Chain& chain) const {
  std::vector<HeldLock> held;
  // 3.14 keeps a lock in one byte and tags the slots of the value stack.
  if (heap_.version().minor() >= 14) return held;
  const std::size_t count = std::min(chain.frames.size(), kMaxFrames);
  for (std::size_t i = 0; i < count && !heap_.exhausted(); ++i) {
    read_frame(chain.frames[i], static_cast<std::uint32_t>(i), held);
  }
  return held;
}

}  // namespace pm::cpython
