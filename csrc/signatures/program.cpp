#include "signatures/program.h"

#include <algorithm>

namespace pm::signatures {
namespace {

constexpr std::size_t kMostSteps = 4000;

// What a match of the tree may begin with; true if it may also be empty.
bool first_bytes(const Node& node, ByteSet& firsts) {
  switch (node.kind) {
    case NodeKind::kEmpty:
    case NodeKind::kAnchor:
      return true;
    case NodeKind::kBytes:
      firsts |= node.bytes;
      return false;
    case NodeKind::kSequence:
      return std::all_of(node.parts.begin(), node.parts.end(),
                         [&](const Node& part) { return first_bytes(part, firsts); });
    case NodeKind::kChoice: {
      bool empty = false;
      for (const Node& part : node.parts) empty |= first_bytes(part, firsts);
      return empty;
    }
    case NodeKind::kRepeat:
      return first_bytes(node.parts[0], firsts) || node.least == 0;
    case NodeKind::kGroup:
      return first_bytes(node.parts[0], firsts);
  }
  return true;
}

}  // namespace

Program::Program(const Syntax& syntax) {
  slot_count_ = static_cast<std::uint32_t>(2 * (syntax.groups.size() + 1));
  compile(syntax.root);
  add({.op = Op::kMatch});
  if (first_bytes(syntax.root, firsts_)) firsts_.set();
  for (int byte = 0; firsts_.count() == 1 && byte < 256; ++byte) {
    if (firsts_[static_cast<std::size_t>(byte)]) only_first_ = byte;
  }
}

std::uint32_t Program::add(Step step) {
  if (steps_.size() >= kMostSteps) throw PatternError("over 4000 steps with all repeats", 0);
  if (step.op == Op::kSplit) step.split = splits_++;
  steps_.push_back(step);
  return static_cast<std::uint32_t>(steps_.size() - 1);
}

void Program::compile(const Node& node) {
  switch (node.kind) {
    case NodeKind::kEmpty:
      return;
    case NodeKind::kBytes:
      if (node.bytes.count() == 1) {
        std::size_t byte = 0;
        while (!node.bytes[byte]) ++byte;
        add({.op = Op::kByte, .byte = static_cast<std::uint8_t>(byte)});
      } else {
        sets_.push_back(node.bytes);
        add({.op = Op::kSet, .first = static_cast<std::uint32_t>(sets_.size() - 1)});
      }
      return;
    case NodeKind::kSequence:
      for (const Node& part : node.parts) compile(part);
      return;
    case NodeKind::kChoice:
      return compile_choice(node);
    case NodeKind::kRepeat:
      return compile_repeat(node);
    case NodeKind::kGroup:
      add({.op = Op::kSave, .first = 2 * node.group});
      compile(node.parts[0]);
      add({.op = Op::kSave, .first = 2 * node.group + 1});
      return;
    case NodeKind::kAnchor:
      add({.op = Op::kAnchor, .byte = static_cast<std::uint8_t>(node.anchor)});
      return;
  }
}

void Program::compile_choice(const Node& node) {
  std::vector<std::uint32_t> ends;
  for (std::size_t i = 0; i + 1 < node.parts.size(); ++i) {
    const std::uint32_t split = add({.op = Op::kSplit});
    steps_[split].first = split + 1;
    compile(node.parts[i]);
    ends.push_back(add({.op = Op::kJump}));
    steps_[split].second = static_cast<std::uint32_t>(steps_.size());
  }
  compile(node.parts.back());
  for (const std::uint32_t end : ends)
    steps_[end].first = static_cast<std::uint32_t>(steps_.size());
}

void Program::compile_repeat(const Node& node) {
  const Node& inner = node.parts[0];
  for (std::uint32_t i = 0; i < node.least; ++i) compile(inner);
  // A way into the inner part, and one past it: which is tried first is what greed means.
  const auto branch = [&](std::uint32_t split, std::uint32_t in, std::uint32_t past) {
    steps_[split].first = node.greedy ? in : past;
    steps_[split].second = node.greedy ? past : in;
  };
  if (node.most == kUnbounded) {
    const std::uint32_t split = add({.op = Op::kSplit});
    compile(inner);
    add({.op = Op::kJump, .first = split});
    branch(split, split + 1, static_cast<std::uint32_t>(steps_.size()));
    return;
  }
  std::vector<std::uint32_t> splits;
  for (std::uint32_t i = node.least; i < node.most; ++i) {
    splits.push_back(add({.op = Op::kSplit}));
    compile(inner);
  }
  const auto past = static_cast<std::uint32_t>(steps_.size());
  for (const std::uint32_t split : splits) branch(split, split + 1, past);
}

bool Program::search(const Text& text, std::size_t from, Scratch& scratch,
                     std::span<Span> spans) const {
  const std::size_t size = text.bytes.size();
  if (size >= kNowhere) return false;
  const std::size_t bits = splits_ * (size + 1);
  scratch.seen.assign(bits / 64 + 1, 0);
  scratch.slots.assign(slot_count_, kNowhere);
  const bool anywhere = firsts_.all();
  for (std::size_t start = from; start <= size; ++start) {
    if (only_first_ >= 0) {
      start = text.bytes.find(static_cast<char>(only_first_), start);
      if (start == std::string_view::npos) return false;
    } else if (!anywhere) {
      while (start < size && !firsts_[static_cast<unsigned char>(text.bytes[start])]) ++start;
      if (start == size) return false;
    }
    if (!run(text, static_cast<std::uint32_t>(start), scratch)) continue;
    for (std::size_t i = 0; i < spans.size() && 2 * i + 1 < scratch.slots.size(); ++i) {
      spans[i] = {scratch.slots[2 * i], scratch.slots[2 * i + 1]};
    }
    return true;
  }
  return false;
}

// A choice that was come to before at the same place failed then, also from an earlier start.
bool Program::run(const Text& text, std::uint32_t start, Scratch& scratch) const {
  const auto size = static_cast<std::uint32_t>(text.bytes.size());
  auto& jobs = scratch.jobs;
  jobs.clear();
  jobs.push_back({0, start, 0});
  while (!jobs.empty()) {
    const Scratch::Job job = jobs.back();
    jobs.pop_back();
    if (job.step == kNowhere) {
      scratch.slots[job.slot] = job.at;
      continue;
    }
    std::uint32_t step = job.step;
    std::uint32_t at = job.at;
    for (bool alive = true; alive;) {
      const Step& now = steps_[step];
      switch (now.op) {
        case Op::kByte:
          alive = at < size && static_cast<std::uint8_t>(text.bytes[at]) == now.byte;
          ++at, ++step;
          break;
        case Op::kSet:
          alive = at < size && sets_[now.first][static_cast<unsigned char>(text.bytes[at])];
          ++at, ++step;
          break;
        case Op::kSplit: {
          const std::size_t bit = std::size_t{now.split} * (size + 1) + at;
          std::uint64_t& word = scratch.seen[bit / 64];
          const std::uint64_t mask = std::uint64_t{1} << (bit % 64);
          alive = !(word & mask);
          word |= mask;
          if (alive) jobs.push_back({now.second, at, 0});
          step = now.first;
          break;
        }
        case Op::kJump:
          step = now.first;
          break;
        case Op::kSave:
          jobs.push_back({kNowhere, scratch.slots[now.first], now.first});
          scratch.slots[now.first] = at;
          ++step;
          break;
        case Op::kAnchor:
          alive = holds(static_cast<Anchor>(now.byte), text, at);
          ++step;
          break;
        case Op::kMatch:
          scratch.slots[0] = start;
          scratch.slots[1] = at;
          return true;
      }
    }
  }
  return false;
}

bool Program::holds(Anchor anchor, const Text& text, std::uint32_t at) {
  if (anchor == Anchor::kLineBegin) return at == 0 && text.at_begin;
  if (anchor == Anchor::kLineEnd) return at == text.bytes.size() && text.at_end;
  const bool before = at > 0 && is_word(static_cast<unsigned char>(text.bytes[at - 1]));
  const bool after = at < text.bytes.size() && is_word(static_cast<unsigned char>(text.bytes[at]));
  return (before != after) == (anchor == Anchor::kWordBorder);
}

}  // namespace pm::signatures
