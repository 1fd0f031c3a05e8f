#include "flightrec/pickle.h"

#include <span>
#include <string>

#include "base/error.h"

namespace pm::flightrec {
namespace {

// Lib/pickletools.py of CPython.
enum Opcode : std::uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kBinString = 'T',
  kShortBinString = 'U',
  kBinUnicode = 'X',
  kReduce = 'R',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kDict = 'd',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kList = 'l',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kEmptyTuple = ')',
  kEmptyList = ']',
  kEmptyDict = '}',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinBytes8 = 0x8e,
  kEmptySet = 0x8f,
  kAddItems = 0x90,
  kFrozenSet = 0x91,
  kNewObj = 0x81,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
};

// The memo's keys count up; one that is far ahead would be a room as large as it says.
constexpr std::size_t kMemoLead = 4096;
constexpr std::size_t kLongestText = 0xffffffff;

class Machine {
 public:
  Machine(Bytes bytes, const Limits& limits) : cursor_(bytes), limits_(limits) {}

  Document run();

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw EvidenceError(what, cursor_.offset());
  }
  void checked() const {
    if (!cursor_.ok()) fail("it is cut off");
  }
  void step(std::uint8_t opcode);
  void charge(std::size_t bytes) {
    memory_ += bytes;
    if (memory_ > limits_.memory_bytes) fail("it unfolds to more than is read of a dump");
  }
  void push(Value value) {
    charge(sizeof(Value));
    stack_.push_back(value);
  }
  Value pop() {
    if (stack_.size() <= floor()) fail("it is damaged: nothing is left on the stack");
    const Value top = stack_.back();
    stack_.pop_back();
    return top;
  }
  Value& top() {
    if (stack_.size() <= floor()) fail("it is damaged: nothing is on the stack");
    return stack_.back();
  }
  std::size_t floor() const noexcept { return marks_.empty() ? 0 : marks_.back(); }
  std::vector<Value> to_mark();
  void make(Tag tag, std::vector<Value> items);
  void tuple_of(std::size_t count);
  void text(std::uint64_t size);
  void line() {
    while (cursor_.ok() && cursor_.u8() != '\n') continue;
  }
  void whole(std::uint64_t size);
  void extend(Tag wanted, std::span<const Value> items);
  void extend_from_mark(Tag wanted);
  void put(std::uint64_t key);
  void get(std::uint64_t key);

  Cursor cursor_;
  const Limits& limits_;
  Document document_;
  std::vector<Value> stack_;
  std::vector<std::size_t> marks_;
  std::vector<Value> spare_;
  std::vector<Value> memo_;
  std::vector<bool> has_memo_;
  std::size_t memory_ = 0;
};

std::vector<Value> Machine::to_mark() {
  if (marks_.empty()) fail("it is damaged: a mark is missing");
  const auto from = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  std::vector<Value> items(from, stack_.end());
  stack_.erase(from, stack_.end());
  marks_.pop_back();
  return items;
}

void Machine::make(Tag tag, std::vector<Value> items) {
  if (tag == Tag::kDict && items.size() % 2) fail("it is damaged: a key has no value");
  charge(sizeof items + items.size() * sizeof(Value));
  push(Value(tag, static_cast<std::int64_t>(document_.containers.size())));
  document_.containers.push_back(std::move(items));
}

void Machine::tuple_of(std::size_t count) {
  std::vector<Value> items(count);
  for (std::size_t i = count; i > 0; --i) items[i - 1] = pop();
  make(Tag::kTuple, std::move(items));
}

void Machine::text(std::uint64_t size) {
  checked();
  const std::string_view found = as_text(cursor_.take(size));
  checked();
  if (found.size() > kLongestText) fail("it has a text that is too long");
  push(Value(found));
}

void Machine::whole(std::uint64_t size) {
  checked();
  const Bytes bytes = cursor_.take(size);
  checked();
  if (bytes.size() > 8) {
    push(Value(Tag::kOther, 0));
    return;
  }
  std::uint64_t value = !bytes.empty() && bytes.back() & 0x80 ? ~std::uint64_t{0} : 0;
  for (std::size_t i = bytes.size(); i > 0; --i) value = value << 8 | bytes[i - 1];
  push(Value(Tag::kInt, static_cast<std::int64_t>(value)));
}

void Machine::extend(Tag wanted, std::span<const Value> items) {
  const Value target = top();
  if (target.tag == Tag::kOther) return;
  if (target.tag != wanted) fail("it is damaged: items are added to what has none");
  if (wanted == Tag::kDict && items.size() % 2) fail("it is damaged: a key has no value");
  charge(items.size() * sizeof(Value));
  auto& own = document_.containers[static_cast<std::size_t>(target.number)];
  own.insert(own.end(), items.begin(), items.end());
}

void Machine::extend_from_mark(Tag wanted) {
  if (marks_.empty()) fail("it is damaged: a mark is missing");
  const std::size_t from = marks_.back();
  marks_.pop_back();
  spare_.assign(stack_.begin() + static_cast<std::ptrdiff_t>(from), stack_.end());
  stack_.resize(from);
  extend(wanted, spare_);
}

void Machine::put(std::uint64_t key) {
  checked();
  if (key > memo_.size() + kMemoLead) fail("it is damaged: its memo has gaps");
  if (key >= memo_.size()) {
    charge((key + 1 - memo_.size()) * sizeof(Value));
    memo_.resize(key + 1);
    has_memo_.resize(key + 1);
  }
  memo_[key] = top();
  has_memo_[key] = true;
}

void Machine::get(std::uint64_t key) {
  checked();
  if (key >= memo_.size() || !has_memo_[key]) fail("it is damaged: its memo has no such entry");
  push(memo_[key]);
}

void Machine::step(std::uint8_t opcode) {
  switch (opcode) {
    case kProto:
      cursor_.get<std::uint8_t>();
      return;
    case kFrame:
      cursor_.get<std::uint64_t>();
      return;
    case kMark:
      charge(sizeof(std::size_t));
      marks_.push_back(stack_.size());
      return;
    case kPop:
      if (!marks_.empty() && stack_.size() == marks_.back()) {
        marks_.pop_back();
      } else {
        pop();
      }
      return;
    case kPopMark:
      to_mark();
      return;
    case kDup:
      push(Value(top()));
      return;
    case kNone:
      return push(Value());
    case kNewTrue:
      return push(Value(Tag::kBool, 1));
    case kNewFalse:
      return push(Value(Tag::kBool, 0));
    case kBinInt:
      return push(Value(Tag::kInt, cursor_.get<std::int32_t>()));
    case kBinInt1:
      return push(Value(Tag::kInt, cursor_.get<std::uint8_t>()));
    case kBinInt2:
      return push(Value(Tag::kInt, cursor_.get<std::uint16_t>()));
    case kLong1:
      return whole(cursor_.get<std::uint8_t>());
    case kLong4:
      return whole(cursor_.get<std::uint32_t>());
    case kBinFloat:
      cursor_.get<std::uint64_t>();  // no number of a dump that is looked at has a fraction
      return push(Value(Tag::kOther, 0));
    case kShortBinUnicode:
    case kShortBinBytes:
    case kShortBinString:
      return text(cursor_.get<std::uint8_t>());
    case kBinUnicode:
    case kBinBytes:
    case kBinString:
      return text(cursor_.get<std::uint32_t>());
    case kBinUnicode8:
    case kBinBytes8:
      return text(cursor_.get<std::uint64_t>());
    case kEmptyList:
    case kEmptySet:
      return make(Tag::kList, {});
    case kEmptyTuple:
      return make(Tag::kTuple, {});
    case kEmptyDict:
      return make(Tag::kDict, {});
    case kList:
    case kFrozenSet:
      return make(Tag::kList, to_mark());
    case kTuple:
      return make(Tag::kTuple, to_mark());
    case kDict:
      return make(Tag::kDict, to_mark());
    case kTuple1:
      return tuple_of(1);
    case kTuple2:
      return tuple_of(2);
    case kTuple3:
      return tuple_of(3);
    case kAppend: {
      const Value item = pop();
      return extend(Tag::kList, {&item, 1});
    }
    case kAppends:
    case kAddItems:
      return extend_from_mark(Tag::kList);
    case kSetItem: {
      const Value value = pop();
      const Value pair[] = {pop(), value};
      return extend(Tag::kDict, pair);
    }
    case kSetItems:
      return extend_from_mark(Tag::kDict);
    case kGlobal:
      line();
      line();
      return push(Value(Tag::kOther, 0));
    case kStackGlobal:
    case kReduce:
    case kNewObj:
      pop();
      pop();
      return push(Value(Tag::kOther, 0));
    case kBuild:
      pop();
      return;
    case kMemoize:
      return put(memo_.size());
    case kBinPut:
      return put(cursor_.get<std::uint8_t>());
    case kLongBinPut:
      return put(cursor_.get<std::uint32_t>());
    case kBinGet:
      return get(cursor_.get<std::uint8_t>());
    case kLongBinGet:
      return get(cursor_.get<std::uint32_t>());
    default:
      fail("it holds more than plain values: opcode " + std::to_string(opcode));
  }
}

Document Machine::run() {
  for (std::size_t count = 0; count < limits_.opcodes; ++count) {
    const auto opcode = cursor_.get<std::uint8_t>();
    checked();
    if (opcode == kStop) {
      if (!marks_.empty()) fail("it is damaged: it ends inside of a container");
      document_.root = pop();
      return std::move(document_);
    }
    step(opcode);
    checked();
  }
  fail("it has more opcodes than are read of a dump");
}

}  // namespace

const std::vector<Value>& Document::items(const Value& value) const noexcept {
  static const std::vector<Value> none;
  const bool holds = value.tag == Tag::kList || value.tag == Tag::kTuple || value.tag == Tag::kDict;
  return holds ? containers[static_cast<std::size_t>(value.number)] : none;
}

const Value* Document::find(const Value& dict, std::string_view key) const noexcept {
  if (dict.tag != Tag::kDict) return nullptr;
  const std::vector<Value>& pairs = items(dict);
  for (std::size_t at = pairs.size(); at >= 2; at -= 2) {
    const Value& name = pairs[at - 2];
    if (name.tag == Tag::kText && name.text() == key) return &pairs[at - 1];
  }
  return nullptr;
}

Document follow(Bytes bytes, const Limits& limits) { return Machine(bytes, limits).run(); }

}  // namespace pm::flightrec
