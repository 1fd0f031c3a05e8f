#include "signatures/literals.h"

#include <algorithm>

namespace pm::signatures {
namespace {

constexpr std::size_t kMostTexts = 96;
constexpr std::size_t kMostBytesOfSet = 4;
constexpr std::size_t kMostLength = 256;

// Either the tree matches these texts and no others, or every match contains one of them.
struct Known {
  bool all = false;
  std::vector<std::string> texts;
  std::size_t lead = 0;  // bytes of a match that may stand before one of them, at most
};

std::size_t sum(std::size_t a, std::size_t b) { return a > kAnyWidth - b ? kAnyWidth : a + b; }

// How many bytes a match of the tree may have.
std::size_t widest(const Node& node) {
  std::size_t width = 0;
  switch (node.kind) {
    case NodeKind::kEmpty:
    case NodeKind::kAnchor:
      return 0;
    case NodeKind::kBytes:
      return 1;
    case NodeKind::kSequence:
      for (const Node& part : node.parts) width = sum(width, widest(part));
      return width;
    case NodeKind::kChoice:
      for (const Node& part : node.parts) width = std::max(width, widest(part));
      return width;
    case NodeKind::kRepeat:
      width = widest(node.parts[0]);
      if (width == 0 || node.most == 0) return 0;
      if (node.most == kUnbounded || width > kAnyWidth / node.most) return kAnyWidth;
      return width * node.most;
    case NodeKind::kGroup:
      return widest(node.parts[0]);
  }
  return kAnyWidth;
}

// How much a set of texts sorts out: by the shortest of them, of equal ones by how few they are.
std::size_t worth(const std::vector<std::string>& texts) {
  if (texts.empty()) return 0;
  std::size_t shortest = kMostLength;
  for (const std::string& text : texts) shortest = std::min(shortest, text.size());
  return shortest * (kMostTexts + 1) + (kMostTexts - std::min(texts.size(), kMostTexts));
}

void keep_better(Known& best, std::vector<std::string> texts, std::size_t lead) {
  const bool usable = std::none_of(texts.begin(), texts.end(),
                                   [](const std::string& text) { return text.empty(); });
  if (usable && worth(texts) > worth(best.texts)) best = {false, std::move(texts), lead};
}

Known known(const Node& node);

Known known_sequence(const Node& node) {
  Known best;
  std::vector<std::string> run{""};  // the texts that stand side by side, up to here
  std::size_t before = 0;            // widest of what stands before the part at hand
  std::size_t run_lead = 0;          // the same before the run
  bool all = true;
  for (const Node& part : node.parts) {
    Known inner = known(part);
    const bool fits = inner.all && run.size() * inner.texts.size() <= kMostTexts &&
                      run.front().size() < kMostLength;
    if (fits) {
      std::vector<std::string> longer;
      for (const std::string& head : run) {
        for (const std::string& tail : inner.texts) longer.push_back(head + tail);
      }
      run = std::move(longer);
      before = sum(before, widest(part));
      continue;
    }
    all = false;
    keep_better(best, std::move(run), run_lead);
    run = {""};
    if (inner.all) {
      run = std::move(inner.texts);
      run_lead = before;
    } else {
      keep_better(best, std::move(inner.texts), sum(before, inner.lead));
      run_lead = sum(before, widest(part));
    }
    before = sum(before, widest(part));
  }
  if (all) return {true, std::move(run), 0};
  keep_better(best, std::move(run), run_lead);
  return best;
}

Known known_choice(const Node& node) {
  Known found{true, {}, 0};
  for (const Node& part : node.parts) {
    Known inner = known(part);
    if (inner.texts.empty()) return {};
    found.all &= inner.all;
    found.lead = std::max(found.lead, inner.lead);
    std::move(inner.texts.begin(), inner.texts.end(), std::back_inserter(found.texts));
  }
  if (found.texts.size() > kMostTexts) return {};
  if (!found.all && std::any_of(found.texts.begin(), found.texts.end(),
                                [](const std::string& text) { return text.empty(); })) {
    return {};
  }
  return found;
}

Known known_repeat(const Node& node) {
  Known inner = known(node.parts[0]);
  if (node.least == 1 && node.most == 1) return inner;
  if (node.least > 0) {
    inner.all = false;
    return inner;
  }
  if (node.most == 1 && inner.all && inner.texts.size() < kMostTexts) {
    inner.texts.emplace_back();
    return inner;
  }
  return {};
}

Known known(const Node& node) {
  switch (node.kind) {
    case NodeKind::kEmpty:
    case NodeKind::kAnchor:
      return {true, {""}, 0};
    case NodeKind::kBytes: {
      const std::size_t count = node.bytes.count();
      if (count == 0 || count > kMostBytesOfSet) return {};
      Known found{true, {}, 0};
      for (std::size_t value = 0; found.texts.size() < count; ++value) {
        if (node.bytes[value]) found.texts.emplace_back(1, static_cast<char>(value));
      }
      return found;
    }
    case NodeKind::kSequence:
      return known_sequence(node);
    case NodeKind::kChoice:
      return known_choice(node);
    case NodeKind::kRepeat:
      return known_repeat(node);
    case NodeKind::kGroup:
      return known(node.parts[0]);
  }
  return {};
}

bool has_anchor(const Node& node) {
  return node.kind == NodeKind::kAnchor ||
         std::any_of(node.parts.begin(), node.parts.end(), has_anchor);
}

// Where a shorter text stands inside of a longer one, it is enough to look for the shorter one.
void drop_longer(std::vector<std::string>& texts) {
  std::sort(texts.begin(), texts.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  std::vector<std::string> kept;
  for (std::string& text : texts) {
    const bool needless = std::any_of(kept.begin(), kept.end(), [&](const std::string& other) {
      return text.find(other) != std::string::npos;
    });
    if (!needless) kept.push_back(std::move(text));
  }
  texts = std::move(kept);
}

}  // namespace

Literals required_literals(const Syntax& syntax) {
  Known found = known(syntax.root);
  Literals literals;
  Known best;
  keep_better(best, std::move(found.texts), found.lead);
  literals.any_of = std::move(best.texts);
  // Of several the leftmost, first-named one is the match: only a single one needs no machine.
  std::size_t longest = 0;
  for (const std::string& text : literals.any_of) longest = std::max(longest, text.size());
  literals.exact =
      found.all && literals.any_of.size() == 1 && syntax.groups.empty() && !has_anchor(syntax.root);
  drop_longer(literals.any_of);
  // A shorter text may stand behind the begin of the longer one that it stands for; and of two that
  // overlap, the second one may be found first.
  literals.lead = sum(best.lead, 2 * longest);
  return literals;
}

}  // namespace pm::signatures
