// One pass over a log of many ranks: whose each line is, and which lines are worth keeping.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ranklogs/keep_literals.h"
#include "ranklogs/lines.h"
#include "ranklogs/links.h"
#include "ranklogs/prefix.h"
#include "ranklogs/work.h"

namespace pm::ranklogs {

// Takes the clean text of one writer, piece by piece.
using Sink = std::function<void(std::uint32_t label, std::string_view text)>;

struct Row {
  std::uint64_t line = 0;     // in the file, from 1
  std::uint64_t ordinal = 0;  // among the lines of its writer, from 1
  std::string text;
  char stream = 0;      // as Prefix has it
  bool begins = false;  // a record: its logger's head is another one than that of the line before
};

// Lines of one writer that belong together: a traceback with what stands around it, or one remark.
struct Region {
  std::uint32_t label = 0;
  Kinds kinds = 0;
  bool cut = false;  // it was longer than what is kept
  std::vector<Row> rows;
  std::vector<std::string> before;  // what its writer wrote before an error, the oldest first
};

// A line behind which a launcher starts its processes anew, if it does.
struct Mark {
  std::uint64_t line = 0;
  std::uint32_t label = 0;
  std::string text;
};

struct PlainLine {
  std::uint64_t line = 0;  // in the file, from 1
  std::string text;
  Again again;  // away from errors
};

// One writer: what its prefixes say.
struct Label {
  std::string host, pod, worker, section;
  std::int64_t local = -1, rank = -1, task = -1, pid = -1;
  std::uint64_t lines = 0;
  std::uint64_t first_line = 0;
  std::uint64_t last_line = 0;
  std::vector<std::uint64_t> at_marks;  // its lines before each mark, while there were any
  std::vector<std::string> last_words;  // its last lines that say anything, the oldest first
  std::vector<PlainLine> tail;          // more of them, of a log with few writers
  std::vector<PlainLine> work;  // the first lines behind each error that go on with what was before
};

struct Options {
  std::vector<KeepLiteral> keep;  // what makes a line worth keeping
  std::size_t block_bytes = std::size_t{1} << 20;
  std::size_t sample_bytes = std::size_t{4} << 20;  // what votes on the grammar
  std::size_t kept_bytes = std::size_t{256} << 20;  // of text in regions, in all
  // Values of what moves on in lines of one form that are work where the form stood above an
  // error, and where it did not: postmortem/thresholds.py says why so many.
  std::uint64_t work_values = 1;
  std::uint64_t work_alike = 1;
  PastHole past_hole;  // nothing: holes are read as zeros
  Sink sink;           // nothing: no text is handed out
};

struct Log {
  Grammar grammar;
  std::vector<Label> labels;
  std::vector<Link> links;
  std::vector<Mark> marks;
  std::vector<Region> regions;  // in the order of their first lines
  std::uint64_t bytes = 0;
  std::uint64_t zeros = 0;  // zero bytes, which are left out
  std::uint64_t lines = 0;
  std::uint64_t binary_lines = 0;  // with characters that no text has
  std::uint64_t cut_lines = 0;     // longer than what is read of a line
  std::uint64_t left_out = 0;      // regions for which there was no room
  std::uint64_t nameless = 0;      // lines of writers beyond the most that are told apart
};

Log read(const Pull& pull, const Options& options);

}  // namespace pm::ranklogs
