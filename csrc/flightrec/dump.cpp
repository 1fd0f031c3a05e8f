#include "flightrec/dump.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "base/error.h"

namespace pm::flightrec {
namespace {

constexpr std::size_t kMostCalls = 200'000;
constexpr std::size_t kMostFrames = 256;
constexpr std::size_t kMostSizes = 64;
constexpr std::size_t kMostRanks = 1'000'000;
constexpr std::size_t kMostGroups = 100'000;
constexpr std::size_t kLongestName = 4096;
constexpr std::size_t kMostFields = 16;  // of a frame, looked through each time
// What a pickle shares may unfold: texts and sizes are kept, and looked at, up to here.
constexpr std::size_t kMostKept = std::size_t{512} << 20;
constexpr std::size_t kMostLooks = 100'000'000;
constexpr std::size_t kMostMembers = 32'000'000;  // characters of lists of ranks

std::string words_of(const Value* value, std::string_view otherwise) {
  if (value && value->tag == Tag::kText && !value->text().empty()) {
    return std::string(value->text().substr(0, kLongestName));
  }
  if (value && value->tag == Tag::kInt && value->number != 0) return std::to_string(value->number);
  return std::string(otherwise);
}

// A number, also one that is written as text.
std::optional<std::int64_t> whole_of(const Value* value) noexcept {
  if (!value) return std::nullopt;
  if (value->tag == Tag::kInt) return value->number;
  if (value->tag != Tag::kText) return std::nullopt;
  std::string_view text = value->text();
  const bool minus = text.starts_with('-');
  if (minus) text.remove_prefix(1);
  if (text.empty() || text.size() > 18) return std::nullopt;
  std::int64_t number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    number = number * 10 + (c - '0');
  }
  return minus ? -number : number;
}

bool is_true(const Value* value) noexcept {
  return value && value->tag == Tag::kBool && value->number == 1;
}

bool is_list(const Value* value) noexcept {
  return value && (value->tag == Tag::kList || value->tag == Tag::kTuple);
}

// Numbers as bytes of a key.
template <class T>
void append(std::string& key, T number) {
  key.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void append(std::string& key, std::string_view text) {
  append(key, text.size());
  key += text;
}

class Reader {
 public:
  explicit Reader(const Document& document) : document_(document) {}

  Dump read();

 private:
  // Places of what is equal, by its bytes. What the pickle shares is looked at once.
  struct Table {
    std::unordered_map<std::string, std::uint32_t> by_key;
    std::unordered_map<std::int64_t, std::uint32_t> by_container;
  };

  void call(const Value& row);
  std::uint32_t sizes(const Value* value);
  std::uint32_t dtypes(const Value* value);
  std::uint32_t stack(const Value* value);
  std::uint32_t frame(const Value& value);
  void members(const Value* groups);
  void status(const Value* groups);

  // The place of `made` in `rows`, where it is put unless an equal one has been.
  template <class Row, class Make>
  std::uint32_t place(Table& table, std::vector<Row>& rows, const Make& make) {
    const auto [found, is_new] =
        table.by_key.try_emplace(key_, static_cast<std::uint32_t>(rows.size()));
    if (is_new) {
      kept_ += 2 * key_.size() + sizeof(Row);
      if (kept_ > kMostKept) throw EvidenceError("it unfolds to more than is read of a dump");
      rows.push_back(make());
    }
    return found->second;
  }

  struct Words {
    const char* name = nullptr;
    const char* file = nullptr;
    std::int64_t line = 0;
    bool operator==(const Words&) const = default;
  };
  struct HashOfWords {
    std::size_t operator()(const Words& words) const noexcept {
      const auto mix = [](std::size_t seed, std::size_t value) {
        return (seed ^ value) * std::size_t{0x9e3779b97f4a7c15};
      };
      return mix(mix(mix(0, reinterpret_cast<std::size_t>(words.name)),
                     reinterpret_cast<std::size_t>(words.file)),
                 static_cast<std::size_t>(words.line));
    }
  };

  const Document& document_;
  Dump dump_;
  std::unordered_map<Words, std::uint32_t, HashOfWords> by_words_;
  std::string key_;
  std::size_t kept_ = 0;
  Table shapes_, sizes_, dtypes_, stacks_, frames_;
};

std::uint32_t Reader::sizes(const Value* value) {
  const bool known = is_list(value);
  if (known) {
    const auto found = sizes_.by_container.find(value->number);
    if (found != sizes_.by_container.end()) return found->second;
  }
  Sizes rows;
  if (known) {
    for (const Value& row : document_.items(*value)) {
      if (rows.size() == kMostSizes) break;
      auto& numbers = rows.emplace_back();
      if (!is_list(&row)) continue;
      const auto& parts = document_.items(row);
      for (std::size_t i = 0; i < std::min(parts.size(), kMostSizes); ++i) {
        if (const auto number = whole_of(&parts[i])) numbers.push_back(*number);
      }
    }
  }
  key_.clear();
  for (const auto& row : rows) {
    append(key_, row.size());
    for (const std::int64_t number : row) append(key_, number);
  }
  const std::uint32_t at = place(sizes_, dump_.sizes, [&] { return std::move(rows); });
  if (known) sizes_.by_container.emplace(value->number, at);
  return at;
}

std::uint32_t Reader::dtypes(const Value* value) {
  const bool known = is_list(value);
  if (known) {
    const auto found = dtypes_.by_container.find(value->number);
    if (found != dtypes_.by_container.end()) return found->second;
  }
  std::vector<std::string> names;
  if (known) {
    for (const Value& name : document_.items(*value)) {
      if (names.size() == kMostSizes) break;
      names.push_back(words_of(&name, "?"));
    }
  }
  key_.clear();
  for (const std::string& name : names) append(key_, std::string_view(name));
  const std::uint32_t at = place(dtypes_, dump_.dtypes, [&] { return std::move(names); });
  if (known) dtypes_.by_container.emplace(value->number, at);
  return at;
}

std::uint32_t Reader::frame(const Value& value) {
  const bool large = document_.items(value).size() > kMostFields;
  if (large) {
    const auto known = frames_.by_container.find(value.number);
    if (known != frames_.by_container.end()) return known->second;
  }
  const Value* const name = document_.find(value, "name");
  const Value* const file = document_.find(value, "filename");
  const Value* const line = document_.find(value, "line");
  // Most pickles have each text once: the same places are the same frame.
  Words words;
  const bool plain = name && file && line && name->tag == Tag::kText && file->tag == Tag::kText &&
                     line->tag == Tag::kInt;
  if (plain) {
    words = {name->chars, file->chars, line->number};
    const auto known = by_words_.find(words);
    if (known != by_words_.end()) return known->second;
  }
  Frame made;
  made.name = words_of(name, "??");
  made.file = words_of(file, "");
  made.line = whole_of(line).value_or(-1);
  key_.clear();
  append(key_, std::string_view(made.name));
  append(key_, std::string_view(made.file));
  append(key_, made.line);
  const std::uint32_t at = place(frames_, dump_.frames, [&] { return std::move(made); });
  if (large) frames_.by_container.emplace(value.number, at);
  if (plain) by_words_.emplace(words, at);
  return at;
}

std::uint32_t Reader::stack(const Value* value) {
  const bool known = is_list(value);
  if (known) {
    const auto found = stacks_.by_container.find(value->number);
    if (found != stacks_.by_container.end()) return found->second;
  }
  std::vector<std::uint32_t> frames;
  if (known) {
    const auto& rows = document_.items(*value);
    for (std::size_t i = 0; i < std::min(rows.size(), kMostFrames); ++i) {
      if (rows[i].tag == Tag::kDict) frames.push_back(frame(rows[i]));
    }
  }
  key_.clear();
  for (const std::uint32_t one : frames) append(key_, one);
  const std::uint32_t at = place(stacks_, dump_.stacks, [&] { return std::move(frames); });
  if (known) stacks_.by_container.emplace(value->number, at);
  return at;
}

void Reader::call(const Value& row) {
  const auto field = [&](std::string_view name) { return document_.find(row, name); };
  Shape shape;
  shape.is_p2p = is_true(field("is_p2p"));
  auto sequence = whole_of(field(shape.is_p2p ? "p2p_seq_id" : "collective_seq_id"));
  if (!sequence) sequence = whole_of(field("seq_id"));  // version 1
  if (!sequence) return;
  const Value* const group = field("process_group");
  const Value nothing{};
  const auto& names = document_.items(is_list(group) ? *group : nothing);
  if (names.empty()) {
    shape.group = words_of(field("pg_id"), "0");
  } else {
    shape.group = words_of(&names[0], names[0].tag == Tag::kInt ? "0" : "");
    if (names.size() > 1) shape.group_words = words_of(&names[1], "");
  }
  shape.group_number = whole_of(field("pg_id"));
  shape.timeout_ms = whole_of(field("timeout_ms")).value_or(0);
  shape.operation = words_of(field("profiling_name"), "?");
  shape.state = words_of(field("state"), "");
  shape.retired = is_true(field("retired"));
  shape.input_sizes = sizes(field("input_sizes"));
  shape.output_sizes = sizes(field("output_sizes"));
  shape.dtypes = dtypes(field("input_dtypes"));
  shape.stack = stack(field("frames"));
  key_.clear();
  for (const std::string* text :
       {&shape.group, &shape.group_words, &shape.operation, &shape.state}) {
    append(key_, std::string_view(*text));
  }
  for (const std::uint32_t number :
       {shape.input_sizes, shape.output_sizes, shape.dtypes, shape.stack}) {
    append(key_, number);
  }
  append(key_, shape.group_number.value_or(0));
  append(key_, shape.timeout_ms);
  for (const bool flag : {shape.group_number.has_value(), shape.retired, shape.is_p2p}) {
    key_ += flag ? '1' : '0';
  }
  const std::uint32_t at = place(shapes_, dump_.shapes, [&] { return std::move(shape); });
  dump_.calls.push_back({.sequence = *sequence,
                         .created_ns = whole_of(field("time_created_ns")).value_or(0),
                         .started_ns = whole_of(field("time_discovered_started_ns")).value_or(0),
                         .shape = at});
}

void Reader::members(const Value* groups) {
  if (!groups || groups->tag != Tag::kDict) return;
  const auto& pairs = document_.items(*groups);
  std::size_t looks = 0;
  for (std::size_t i = 0; i + 1 < pairs.size() && dump_.members.size() < kMostGroups; i += 2) {
    looks += document_.items(pairs[i + 1]).size();
    if (looks > kMostMembers) break;  // one dict, or one text, that many groups share
    const Value* const ranks = document_.find(pairs[i + 1], "ranks");
    if (!ranks) continue;
    Members found;
    found.words = words_of(document_.find(pairs[i + 1], "desc"), "");
    looks += found.words.size();
    found.group = words_of(&pairs[i], pairs[i].tag == Tag::kInt ? "0" : "");
    if (ranks->tag == Tag::kText) {
      looks += ranks->text().size();
      found.text = ranks->text();
    } else if (is_list(ranks)) {
      for (const Value& rank : document_.items(*ranks)) {
        if (const auto number = whole_of(&rank)) found.ranks.push_back(*number);
        if (found.ranks.size() == kMostRanks) break;
      }
      looks += document_.items(*ranks).size();
    }
    dump_.members.push_back(std::move(found));
  }
}

void Reader::status(const Value* groups) {
  if (!groups || groups->tag != Tag::kDict) return;
  const auto& pairs = document_.items(*groups);
  std::size_t looks = 0;
  for (std::size_t i = 0; i + 1 < pairs.size() && dump_.status.size() < kMostGroups; i += 2) {
    looks += document_.items(pairs[i + 1]).size();
    if (looks > kMostLooks) break;
    const auto number = whole_of(&pairs[i]);
    if (!number || pairs[i + 1].tag != Tag::kDict) continue;
    const auto field = [&](std::string_view name) {
      return whole_of(document_.find(pairs[i + 1], name)).value_or(-1);
    };
    dump_.status.push_back({.group_number = *number,
                            .enqueued = field("last_enqueued_collective"),
                            .started = field("last_started_collective"),
                            .completed = field("last_completed_collective")});
  }
}

Dump Reader::read() {
  const Value& root = document_.root;
  const Value* const entries = document_.find(root, "entries");
  if (root.tag != Tag::kDict) throw EvidenceError("not a flight recorder's dump");
  if (!entries || entries->tag != Tag::kList) {
    throw EvidenceError("a flight recorder's dump without entries");
  }
  dump_.version = words_of(document_.find(root, "version"), "");
  const auto& rows = document_.items(*entries);
  const std::size_t from = rows.size() - std::min(rows.size(), kMostCalls);
  // A dict that is there more than once counts as often, and is looked at once.
  std::unordered_map<std::int64_t, std::optional<Call>> seen;
  for (std::size_t i = from; i < rows.size(); ++i) {
    if (rows[i].tag != Tag::kDict) continue;
    const auto known = seen.find(rows[i].number);
    if (known != seen.end()) {
      if (known->second) dump_.calls.push_back(*known->second);
      continue;
    }
    const std::size_t before = dump_.calls.size();
    call(rows[i]);
    seen[rows[i].number] =
        dump_.calls.size() > before ? std::optional(dump_.calls.back()) : std::nullopt;
  }
  members(document_.find(root, "pg_config"));
  status(document_.find(root, "pg_status"));
  return std::move(dump_);
}

}  // namespace

Dump read_dump(Bytes bytes, const Limits& limits) {
  const Document document = follow(bytes, limits);
  return Reader(document).read();
}

}  // namespace pm::flightrec
