#include "strace/table.h"

#include <algorithm>
#include <array>

namespace pm::strace {

namespace {

constexpr unsigned kBits = 5;
constexpr std::size_t kFan = std::size_t{1} << kBits;
constexpr std::size_t kMask = kFan - 1;

}  // namespace

// One node of the tree, which several tables may have. A leaf's slots use their descriptions once,
// however many tables have the leaf.
struct TableNode {
  std::uint32_t references = 1;
  std::uint32_t used = 0;     // slots below that stand for something
  std::uint32_t cloexec = 0;  // of these, those that an exec closes
};

namespace {

struct Leaf : TableNode {
  std::array<Slot, kFan> slots;
};

struct Inner : TableNode {
  std::array<TableNode*, kFan> below{};
};

Leaf* leaf(TableNode* node) noexcept { return static_cast<Leaf*>(node); }
Inner* inner(TableNode* node) noexcept { return static_cast<Inner*>(node); }

void count_leaf(Leaf& node) noexcept {
  node.used = node.cloexec = 0;
  for (const Slot& slot : node.slots) {
    node.used += slot.description != kNone;
    node.cloexec += slot.description != kNone && slot.cloexec;
  }
}

void count_inner(Inner& node) noexcept {
  node.used = node.cloexec = 0;
  for (const TableNode* const child : node.below) {
    if (!child) continue;
    node.used += child->used;
    node.cloexec += child->cloexec;
  }
}

// `level` 0 is that of the leaves.
void drop(TableNode* node, unsigned level, Descriptions& all) {
  if (!node || --node->references > 0) return;
  if (level == 0) {
    for (const Slot& slot : leaf(node)->slots) all.release(slot.description);
    delete leaf(node);
    return;
  }
  for (TableNode* const child : inner(node)->below) drop(child, level - 1, all);
  delete inner(node);
}

// Makes a node that no other table has of the one at hand.
void own(TableNode*& node, unsigned level, Descriptions& all) {
  if (node->references == 1) return;
  --node->references;
  if (level == 0) {
    Leaf* const made = new Leaf(*leaf(node));
    made->references = 1;
    for (const Slot& slot : made->slots) all.use(slot.description);
    node = made;
    return;
  }
  Inner* const made = new Inner(*inner(node));
  made->references = 1;
  for (TableNode* const child : made->below) {
    if (child) ++child->references;
  }
  node = made;
}

constexpr std::int64_t span_of(unsigned level) noexcept {
  return std::int64_t{1} << (kBits * (level + 1));
}

// Clears or marks the slots from `first` to `last`, which count from the node's own first one.
void sweep(TableNode*& node, unsigned level, std::int64_t first, std::int64_t last, bool clears,
           Descriptions& all) {
  if (!node || node->used == 0 || (!clears && node->cloexec == node->used)) return;
  if (clears && first <= 0 && last >= span_of(level) - 1) {
    drop(node, level, all);
    node = nullptr;
    return;
  }
  own(node, level, all);
  const std::int64_t span = level == 0 ? 1 : span_of(level - 1);
  const std::int64_t from = std::max<std::int64_t>(first, 0) / span;
  const std::int64_t to = std::min<std::int64_t>(last / span, kFan - 1);
  for (std::int64_t i = from; i <= to; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (level > 0) {
      sweep(inner(node)->below[at], level - 1, first - i * span, last - i * span, clears, all);
    } else if (!clears) {
      leaf(node)->slots[at].cloexec = true;
    } else {
      all.release(leaf(node)->slots[at].description);
      leaf(node)->slots[at] = {};
    }
  }
  level == 0 ? count_leaf(*leaf(node)) : count_inner(*inner(node));
}

void close_marked(TableNode*& node, unsigned level, Descriptions& all) {
  if (!node || node->cloexec == 0) return;
  if (node->cloexec == node->used) {
    drop(node, level, all);
    node = nullptr;
    return;
  }
  own(node, level, all);
  if (level == 0) {
    for (Slot& slot : leaf(node)->slots) {
      if (slot.description == kNone || !slot.cloexec) continue;
      all.release(slot.description);
      slot = {};
    }
    count_leaf(*leaf(node));
    return;
  }
  for (TableNode*& child : inner(node)->below) close_marked(child, level - 1, all);
  count_inner(*inner(node));
}

bool walk(const TableNode* node, unsigned level, std::int64_t base,
          const std::function<bool(std::int64_t, const Slot&)>& use) {
  if (!node || node->used == 0) return true;
  const std::int64_t span = level == 0 ? 1 : span_of(level - 1);
  for (std::size_t i = 0; i < kFan; ++i) {
    const std::int64_t number = base + static_cast<std::int64_t>(i) * span;
    if (level > 0) {
      if (!walk(static_cast<const Inner*>(node)->below[i], level - 1, number, use)) return false;
    } else if (const Slot& slot = static_cast<const Leaf*>(node)->slots[i];
               slot.description != kNone && !use(number, slot)) {
      return false;
    }
  }
  return true;
}

}  // namespace

Table::Table(const Table& other) noexcept
    : root_(other.root_), height_(other.height_), descriptions_(other.descriptions_) {
  if (root_) ++root_->references;
}

Table::~Table() { drop(root_, height_, *descriptions_); }

const Slot* Table::find(std::int64_t number) const noexcept {
  if (number < 0 || number >= span_of(height_)) return nullptr;
  const auto place = static_cast<std::size_t>(number);
  TableNode* node = root_;
  for (unsigned level = height_; node && level > 0; --level) {
    node = inner(node)->below[(place >> (kBits * level)) & kMask];
  }
  if (!node) return nullptr;
  const Slot& slot = leaf(node)->slots[place & kMask];
  return slot.description == kNone ? nullptr : &slot;
}

void Table::set(std::int64_t number, std::int32_t description, bool cloexec, const Opened& by) {
  if (number < 0 || number >= kMostNumbers) {
    descriptions_->release(description);
    return;
  }
  const Slot* const known = find(number);
  if (description == kNone && !known) return;
  if (!root_) {
    while (number >= span_of(height_)) ++height_;
  }
  while (root_ && number >= span_of(height_)) {
    auto* const above = new Inner;
    above->used = root_->used;
    above->cloexec = root_->cloexec;
    above->below[0] = root_;
    root_ = above;
    ++height_;
  }
  const std::uint32_t adds = description != kNone && !known;
  const std::uint32_t takes = description == kNone;
  const std::uint32_t marks = description != kNone && cloexec;
  const std::uint32_t unmarks = known && known->cloexec;
  const auto place = static_cast<std::size_t>(number);
  TableNode** at = &root_;
  for (unsigned level = height_;; --level) {
    if (!*at) {
      *at = level == 0 ? static_cast<TableNode*>(new Leaf) : new Inner;
    } else {
      own(*at, level, *descriptions_);
    }
    (*at)->used += adds - takes;
    (*at)->cloexec += marks - unmarks;
    if (level == 0) break;
    at = &inner(*at)->below[(place >> (kBits * level)) & kMask];
  }
  Slot& slot = leaf(*at)->slots[place & kMask];
  const std::int32_t before = slot.description;
  slot = {description, description != kNone && cloexec, by};
  descriptions_->release(before);
}

void Table::clear_range(std::int64_t first, std::int64_t last) {
  if (last >= std::max<std::int64_t>(first, 0)) {
    sweep(root_, height_, first, last, true, *descriptions_);
  }
}

void Table::clear_cloexec() { close_marked(root_, height_, *descriptions_); }

void Table::set_cloexec(std::int64_t number, bool cloexec) {
  const Slot* const slot = find(number);
  if (!slot || slot->cloexec == cloexec) return;
  const Slot same = *slot;
  descriptions_->use(same.description);
  set(number, same.description, cloexec, same.by);
}

void Table::set_cloexec(std::int64_t first, std::int64_t last) {
  if (last >= std::max<std::int64_t>(first, 0)) {
    sweep(root_, height_, first, last, false, *descriptions_);
  }
}

std::uint32_t Table::size() const noexcept { return root_ ? root_->used : 0; }

void Table::each(const std::function<bool(std::int64_t, const Slot&)>& use) const {
  walk(root_, height_, 0, use);
}

}  // namespace pm::strace
