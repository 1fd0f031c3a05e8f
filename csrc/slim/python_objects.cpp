#include "slim/python_objects.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "cpython/code.h"
#include "cpython/frames.h"
#include "cpython/heap.h"
#include "cpython/runtime.h"
#include "cpython/threads.h"

namespace pm::slim {
namespace {

using cpython::Heap;
using cpython::Type;

// Sizes that no version exceeds. The main interpreter of 3.12 and later lies in the data of
// libpython, which is kept as a whole.
constexpr std::uint64_t kInterpreter = 16 << 10, kThread = 2 << 10, kCode = 512, kFrame = 256,
                        kType = 1 << 10, kObject = 64;
// An array of a list, a table of a dict, a text: larger ones lose their end, and with it a reader
// that copies them whole loses the value.
constexpr std::uint64_t kContents = 1 << 20;
constexpr std::uint64_t kAllContents = 48 << 20;
constexpr unsigned kItems = 32;  // of a container; readers print about 100 characters of one
constexpr unsigned kDepth = 5;   // of containers
constexpr std::uint64_t kLocals = 4096;
constexpr std::size_t kMaxObjects = 400'000;
constexpr std::uint64_t kReads = 24'000'000;

std::uint64_t at(std::uint64_t object, std::int32_t field) {
  return field < 0 ? 0 : object + static_cast<std::uint64_t>(field);
}

class ObjectKeeper {
 public:
  ObjectKeeper(const Heap& heap, PageSet& pages)
      : heap_(heap), layout_(heap.layout()), pages_(pages) {}

  void interpreter(std::uint64_t address);
  void thread(std::uint64_t address) { pages_.add(address, kThread); }
  void frame(const cpython::FramePlace& place);

 private:
  void object(std::uint64_t address, unsigned depth);
  void contents(std::uint64_t address, const Type& type, unsigned depth);
  void items(std::uint64_t array, std::uint64_t count, unsigned depth);
  void dict(std::uint64_t address, unsigned depth);
  void code(std::uint64_t address);
  void add(std::uint64_t address, std::uint64_t size);

  const Heap& heap_;
  const cpython::Layout& layout_;
  PageSet& pages_;
  std::uint64_t left_ = kAllContents;
  std::unordered_map<std::uint64_t, unsigned> seen_;  // objects, by the least depth so far
  std::unordered_set<std::uint64_t> codes_, types_;
};

// Of contents that may be large, against the budget.
void ObjectKeeper::add(std::uint64_t address, std::uint64_t size) {
  size = std::min({size, kContents, left_});
  pages_.add(address, size);
  left_ -= size;
}

// pystack makes sure of an interpreter by the types of what it holds: modules, sys, builtins.
void ObjectKeeper::interpreter(std::uint64_t address) {
  pages_.add(address, kInterpreter);
  constexpr std::uint64_t kSearched = 4096;
  for (std::uint64_t offset = 0; offset < kSearched; offset += 8) {
    const std::uint64_t word = heap_.get<std::uint64_t>(address + offset).value_or(0);
    if (word < kPage || word & 7 || heap_.memory().core().segment_at(word) == nullptr) continue;
    if (heap_.type_of(word).name == "dict") object(word, kDepth);
  }
}

void ObjectKeeper::frame(const cpython::FramePlace& place) {
  code(place.code);
  const std::uint64_t names = heap_.pointer(place.code, layout_.code_names);
  const std::uint64_t count = heap_.size(names, kLocals);
  const bool objects = heap_.features().frame_objects;
  const std::int32_t header = objects ? layout_.frame_locals : layout_.iframe_locals;
  const auto before = static_cast<std::uint64_t>(std::max(header, 0));
  const std::uint64_t start = place.locals - std::min(place.locals, before);
  pages_.add(start, std::max(kFrame, before + 8 * count));
  if (objects) object(start, kDepth);
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint64_t value = heap_.get<std::uint64_t>(place.locals + 8 * i).value_or(0);
    if (heap_.features().tagged_references) value &= ~std::uint64_t{3};
    if (value != 0) object(value, 0);
  }
}

void ObjectKeeper::code(std::uint64_t address) {
  if (!codes_.insert(address).second || codes_.size() > kMaxObjects) return;
  pages_.add(address, kCode);
  object(address, kDepth);
  for (const std::int32_t field :
       {layout_.code_file, layout_.code_name, layout_.code_qualname, layout_.code_lines,
        layout_.code_names, layout_.code_kinds, layout_.code_cells, layout_.code_free}) {
    const std::uint64_t part = heap_.pointer(address, field);
    if (part != 0) object(part, kDepth - 1);
  }
  // Every name: a reader that lacks one gives up all variables of the frame.
  const std::uint64_t names = heap_.pointer(address, layout_.code_names);
  for (std::uint64_t i = 0, count = heap_.size(names, kLocals); i < count; ++i) {
    object(heap_.pointer(at(names, layout_.tuple_items) + 8 * i, 0), kDepth);
  }
}

// At the greatest depth only what says which object it is, with text and numbers whole.
void ObjectKeeper::object(std::uint64_t address, unsigned depth) {
  if (seen_.size() > kMaxObjects || heap_.exhausted()) return;
  const auto [known, fresh] = seen_.emplace(address, depth);
  if (!fresh && known->second <= depth) return;
  known->second = depth;
  pages_.add(address, kObject);
  const std::uint64_t type_address = heap_.pointer(address, 8);
  const Type type = heap_.type_of(address);
  if (types_.insert(type_address).second) pages_.add(type_address, kType);
  contents(address, type, depth);
}

void ObjectKeeper::contents(std::uint64_t address, const Type& type, unsigned depth) {
  if (type.is(cpython::kText)) {
    // At most four bytes a character; what the text does not fill is other objects nearby.
    add(address, 80 + 4 * heap_.text_length(address).value_or(0));
    // Not compact (a subclass of str): the characters lie elsewhere.
    const std::uint64_t data = heap_.pointer(address, layout_.text_data);
    if (data != 0 && heap_.memory().core().segment_at(data)) add(data, kPage);
  } else if (type.is(cpython::kBytes)) {
    add(address, 40 + heap_.size(address, kContents));
  } else if (type.is(cpython::kInt)) {
    add(address, 32 + 4 * heap_.size(address, kContents / 4));
  } else if (type.is(cpython::kTuple)) {
    items(at(address, layout_.tuple_items), heap_.size(address, kContents / 8), depth);
  } else if (type.is(cpython::kList)) {
    items(heap_.pointer(address, layout_.list_items), heap_.size(address, kContents / 8), depth);
  } else if (type.is(cpython::kDict)) {
    dict(address, depth);
  } else if (type.name == "cell") {
    const std::uint64_t value = heap_.pointer(address, layout_.cell_value);
    if (value != 0 && depth < kDepth) object(value, depth + 1);
  }
}

void ObjectKeeper::items(std::uint64_t array, std::uint64_t count, unsigned depth) {
  if (array == 0) return;
  add(array, 8 * count);
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(count, kItems) && depth < kDepth; ++i) {
    const std::uint64_t value = heap_.get<std::uint64_t>(array + 8 * i).value_or(0);
    if (value != 0) object(value, depth + 1);
  }
}

void ObjectKeeper::dict(std::uint64_t address, unsigned depth) {
  const std::uint64_t keys = heap_.pointer(address, layout_.dict_keys);
  const std::uint64_t values = heap_.pointer(address, layout_.dict_values);
  const auto entries = heap_.field<std::int64_t>(keys, layout_.keys_entries).value_or(0);
  std::uint64_t slots = 0;
  if (layout_.keys_log2_size >= 0) {
    slots =
        std::uint64_t{1} << std::min(
            heap_.field<std::uint8_t>(keys, layout_.keys_log2_size).value_or(0), std::uint8_t{40});
  } else {
    slots = heap_.field<std::uint64_t>(keys, layout_.keys_size).value_or(0);
  }
  slots = std::min(slots, kContents);
  const std::uint64_t width = slots <= 0xff ? 1 : slots <= 0xffff ? 2 : 4;
  const std::uint64_t used =
      entries > 0 ? std::min<std::uint64_t>(static_cast<std::uint64_t>(entries), kContents) : 0;
  if (keys != 0) add(keys, 64 + slots * width + 24 * used);
  if (values != 0) add(values, 16 + 8 * used);
  if (depth >= kDepth) return;
  unsigned left = kItems;
  heap_.each(address, [&](std::uint64_t key, std::uint64_t value) {
    object(key, depth + 1);
    object(value, depth + 1);
    return --left > 0;
  });
}

}  // namespace

void keep_python(const elfcore::Memory& memory, PageSet& pages) {
  Problems ignored;  // the walk has told them
  const auto runtime = cpython::find_runtime(memory, ignored);
  if (!runtime) return;
  pages.add(runtime->address, 256 << 10);
  const Heap heap(memory, runtime->layout, runtime->version, kReads);
  cpython::Codes codes(heap);
  const cpython::Frames frames(heap, codes);
  ObjectKeeper keeper(heap, pages);
  std::unordered_set<std::uint64_t> interpreters;
  for (const cpython::ThreadState& state : cpython::read_threads(heap, *runtime, ignored)) {
    if (interpreters.insert(state.interpreter).second) keeper.interpreter(state.interpreter);
    keeper.thread(state.address);
    for (const cpython::FramePlace& place : frames.walk(state.address).frames) keeper.frame(place);
  }
}

}  // namespace pm::slim
