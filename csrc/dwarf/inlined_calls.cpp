#include "dwarf/inlined_calls.h"

#include <algorithm>

#include "base/demangle.h"

namespace pm::dwarf {
namespace {

// Entries to pass in one unit; the largest units of PyTorch have some 2 million.
constexpr std::size_t kMaxEntries = 8'000'000;
constexpr std::size_t kMaxDepth = 512;
// Ranges of all entries together: a crafted list may be named by every one of them.
constexpr std::size_t kMaxRangesOfCalls = 16'000'000;
constexpr std::size_t kMaxInlined = 64;
constexpr int kMaxOrigins = 16;

// One entry on the way down: the addresses that are inside it, as indices.
struct Scope {
  std::vector<std::size_t> inside;
};

struct Entry {
  Place place;
  std::uint64_t sibling = 0, origin = 0, call_file = 0, call_line = 0;
};

class Walk {
 public:
  Walk(const Unit& unit, const DebugFile& file, std::span<const std::uint64_t> addresses)
      : unit_(unit),
        file_(file),
        addresses_(addresses),
        info_(clip(file.get(Section::info), 0, unit.end)),
        chains_(addresses.size()) {}

  std::vector<CallChain> run() {
    Cursor cursor(info_, unit_.root);
    Scope all;
    for (std::size_t i = 0; i < addresses_.size(); ++i) all.inside.push_back(i);
    scopes_.push_back(std::move(all));
    for (std::size_t count = 0; count < kMaxEntries && !cursor.at_end() && !scopes_.empty();
         ++count) {
      step(cursor);
    }
    return std::move(chains_);
  }

 private:
  void step(Cursor& cursor) {
    const std::uint64_t offset = cursor.offset();
    Cursor ahead = cursor;
    const std::uint64_t code = ahead.uleb();
    if (code == 0) {
      cursor = ahead;
      scopes_.pop_back();
      return;
    }
    const Abbrev* const abbrev = unit_.abbrevs->find(code);
    if (!abbrev) {
      scopes_.clear();
      return;
    }
    const bool telling = abbrev->tag == kSubprogram || abbrev->tag == kInlinedSubroutine ||
                         abbrev->tag == kLexicalBlock;
    if (!telling && abbrev->size) {
      cursor = ahead;
      cursor.skip(*abbrev->size);
      if (abbrev->children) push({scopes_.back().inside});
      return;
    }
    Entry entry;
    read_entry(cursor, unit_, file_, [&](std::uint16_t name, const Value& value) {
      if (keep_place(entry.place, name, value)) return;
      if (name == kSibling) entry.sibling = value.number;
      if (name == kAbstractOrigin) entry.origin = value.number;
      if (name == kCallFile) entry.call_file = value.number;
      if (name == kCallLine) entry.call_line = value.number;
    });
    if (!cursor.ok()) {
      scopes_.clear();
      return;
    }
    Scope scope;
    if (has_place(entry.place) && telling) {
      scope.inside = inside(entry.place);
    } else if (!telling || abbrev->tag == kLexicalBlock) {
      scope.inside = scopes_.back().inside;
    }  // a function without code is a declaration, or what others were inlined from
    note(abbrev->tag, offset, entry, scope);
    if (!abbrev->children) return;
    // Only functions are passed over: whatever else there is may hold some.
    const bool skip = scope.inside.empty() && abbrev->tag != kCompileUnit &&
                      entry.sibling > cursor.offset() && entry.sibling < unit_.end;
    if (skip && telling) {
      cursor.skip(entry.sibling - cursor.offset());
      return;
    }
    push(std::move(scope));
  }

  void note(std::uint16_t tag, std::uint64_t offset, const Entry& entry, const Scope& scope) {
    for (const std::size_t index : scope.inside) {
      CallChain& chain = chains_[index];
      if (tag == kSubprogram) chain = {offset, {}};
      if (tag == kInlinedSubroutine && chain.inlined.size() < kMaxInlined) {
        chain.inlined.push_back({entry.origin, entry.call_file, entry.call_line});
      }
    }
  }

  void push(Scope scope) {
    if (scopes_.size() >= kMaxDepth) {
      scopes_.clear();
    } else {
      scopes_.push_back(std::move(scope));
    }
  }

  std::vector<std::size_t> inside(const Place& place) {
    ranges_.clear();
    if (spent_ < kMaxRangesOfCalls) append_ranges(place, unit_, file_, ranges_);
    spent_ += ranges_.size();
    std::vector<std::size_t> result;
    for (const std::size_t index : scopes_.back().inside) {
      const std::uint64_t address = addresses_[index];
      const bool hit = std::any_of(ranges_.begin(), ranges_.end(), [address](const Range& range) {
        return range.start <= address && address < range.end;
      });
      if (hit) result.push_back(index);
    }
    return result;
  }

  const Unit& unit_;
  const DebugFile& file_;
  std::span<const std::uint64_t> addresses_;
  Bytes info_;
  std::vector<CallChain> chains_;
  std::vector<Scope> scopes_;
  std::vector<Range> ranges_;
  std::size_t spent_ = 0;
};

}  // namespace

std::vector<CallChain> call_chains(const Unit& unit, const DebugFile& file,
                                   std::span<const std::uint64_t> addresses) {
  return Walk(unit, file, addresses).run();
}

// A linkage name is worth more than a name, which lacks namespaces and parameters. An entry may
// leave its name to the one that it completes or was inlined from.
std::string function_name(std::uint64_t entry, Units& units, const DebugFile& file) {
  std::string_view plain;
  for (int i = 0; i < kMaxOrigins; ++i) {
    const Unit* const unit = units.around(entry);
    if (!unit) break;
    Cursor cursor(clip(file.get(Section::info), 0, unit->end), entry);
    std::string_view linkage;
    std::uint64_t next = 0;
    read_entry(cursor, *unit, file, [&](std::uint16_t name, const Value& value) {
      if (name == kLinkageName || name == kMipsLinkageName) linkage = text_of(value, *unit, file);
      if (name == kName && plain.empty()) plain = text_of(value, *unit, file);
      if (name == kAbstractOrigin || name == kSpecification) {
        if (value.kind == ValueKind::reference) next = value.number;
      }
    });
    if (!linkage.empty()) return demangle(linkage);
    if (next == 0 || next == entry) break;
    entry = next;
  }
  return std::string(plain);
}

}  // namespace pm::dwarf
