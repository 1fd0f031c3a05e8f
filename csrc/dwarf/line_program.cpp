#include "dwarf/line_program.h"

#include <algorithm>

#include "dwarf/constants.h"

namespace pm::dwarf {
namespace {

constexpr std::uint64_t kMaxNames = 1 << 20;

enum Opcode : std::uint8_t {
  kExtended = 0,
  kCopy = 1,
  kAdvancePc = 2,
  kAdvanceLine = 3,
  kSetFile = 4,
  kConstAddPc = 8,
  kFixedAdvancePc = 9,
};
// The last one is of NVIDIA's compilers: the rows that follow were inlined at a row before them.
enum ExtendedOpcode : std::uint8_t { kEndSequence = 1, kSetAddress = 2, kInlinedCall = 0x90 };
enum ContentType : std::uint64_t { kPath = 1, kDirectoryIndex = 2 };

struct Format {
  std::uint64_t type = 0;
  std::uint16_t form = 0;
};

std::uint64_t offset_in(Cursor& cursor, std::uint8_t size) {
  return size == 8 ? cursor.u64() : cursor.u32();
}

// Addresses between one row and the next belong to the first of them.
class Rows {
 public:
  using Found = std::function<void(std::size_t, std::uint64_t, std::uint64_t)>;
  Rows(std::span<const std::uint64_t> addresses, const Found& found)
      : addresses_(addresses), found_(found) {
    if (addresses.empty()) return;
    first_ = addresses.front();
    last_ = addresses.back();
  }

  void add(std::uint64_t address, std::uint64_t file, std::uint64_t line, bool last) {
    // A sequence at 0 or just below the top is code that the linker threw away.
    if (address > first_ && address_ <= last_ && open_ && start_ != 0 && address > address_) {
      tell(address);
    }
    if (!open_) start_ = address;
    open_ = !last;
    address_ = address;
    file_ = file;
    line_ = line;
  }

 private:
  void tell(std::uint64_t end) const {
    auto next = std::lower_bound(addresses_.begin(), addresses_.end(), address_);
    for (; next != addresses_.end() && *next < end; ++next) {
      found_(static_cast<std::size_t>(next - addresses_.begin()), file_, line_);
    }
  }

  std::span<const std::uint64_t> addresses_;
  std::uint64_t first_ = UINT64_MAX, last_ = 0;  // of these; where there is none, no row has any
  const Found& found_;
  bool open_ = false;
  std::uint64_t start_ = 0, address_ = 0, file_ = 1, line_ = 1;
};

struct Registers {
  std::uint64_t address = 0, operation = 0, file = 1, line = 1;
};

// Rows of a cubin: each may have been inlined at a row before it, which NVIDIA's compilers say
// without .debug_info.
class InlinedRows {
 public:
  using Found = std::function<void(std::size_t, std::span<const LineProgram::Place>)>;
  InlinedRows(std::span<const std::uint64_t> addresses, const Found& found)
      : addresses_(addresses), found_(found) {}

  void add(std::uint64_t address, std::uint64_t file, std::uint64_t line, bool last) {
    if (!rows_.empty() && rows_.front().address != 0 && address > rows_.back().address) {
      tell(address);
    }
    if (last) {
      rows_.clear();
      caller_ = name_ = 0;
    } else if (rows_.size() < kMaxRows) {
      rows_.push_back({address, file, line, caller_, name_});
    }
  }
  // `caller` counts the rows of the sequence from 1; 0: no longer inlined.
  void inlined_call(std::uint64_t caller, std::uint64_t name) {
    caller_ = caller;
    name_ = name;
  }

 private:
  static constexpr std::size_t kMaxRows = 1 << 20;
  static constexpr std::size_t kMaxDepth = 64;
  struct Row {
    std::uint64_t address, file, line, caller, name;
  };

  void tell(std::uint64_t end) {
    auto next = std::lower_bound(addresses_.begin(), addresses_.end(), rows_.back().address);
    if (next == addresses_.end() || *next >= end) return;
    std::vector<LineProgram::Place> places;
    // A caller stands before its row, so the chain ends; a crafted one ends here too.
    for (std::size_t at = rows_.size(); at > 0 && places.size() < kMaxDepth;) {
      const Row& row = rows_[at - 1];
      places.push_back({row.file, row.line, row.caller != 0, row.name});
      at = row.caller < at ? row.caller : 0;
    }
    for (; next != addresses_.end() && *next < end; ++next) {
      found_(static_cast<std::size_t>(next - addresses_.begin()), places);
    }
  }

  std::span<const std::uint64_t> addresses_;
  const Found& found_;
  std::vector<Row> rows_;  // of this sequence
  std::uint64_t caller_ = 0, name_ = 0;
};

}  // namespace

std::optional<LineProgram> LineProgram::at(const DebugFile& file, std::uint64_t offset,
                                           std::string_view folder) {
  LineProgram program;
  program.compile_folder_ = folder;
  if (!program.read_header(file, offset)) return std::nullopt;
  return program;
}

bool LineProgram::read_header(const DebugFile& file, std::uint64_t offset) {
  const Bytes section = file.get(Section::line);
  Cursor cursor(section, offset);
  std::uint64_t length = cursor.u32();
  if (length == 0xffffffff) {
    length = cursor.u64();
    offset_size_ = 8;
  }
  if (!cursor.ok() || length > cursor.left()) return false;
  end_ = cursor.offset() + length;
  version_ = cursor.u16();
  if (version_ < 2 || version_ > 5) return false;
  if (version_ == 5) cursor.skip(2);  // sizes of addresses and of segment selectors
  const std::uint64_t header_length = offset_in(cursor, offset_size_);
  if (!cursor.ok() || header_length > end_ - std::min(end_, cursor.offset())) return false;
  const std::uint64_t code = cursor.offset() + header_length;
  min_length_ = cursor.u8();
  if (version_ >= 4) max_operations_ = cursor.u8();
  cursor.skip(1);  // whether rows begin a statement, at first
  line_base_ = static_cast<std::int8_t>(cursor.u8());
  line_range_ = cursor.u8();
  opcode_base_ = cursor.u8();
  if (opcode_base_ > 0) lengths_ = cursor.take(opcode_base_ - 1u);
  if (!cursor.ok() || line_range_ == 0 || opcode_base_ == 0) return false;
  if (max_operations_ == 0) max_operations_ = 1;
  code_ = clip(section, code, end_ - code);
  // Names may go wrong, and the lines are worth having all the same.
  Cursor names(clip(section, 0, code), cursor.offset());
  if (version_ < 5) {
    read_old_names(names);
  } else if (read_new_names(names, file, true)) {
    read_new_names(names, file, false);
  }
  return true;
}

void LineProgram::read_old_names(Cursor& cursor) {
  folders_.push_back(compile_folder_);
  while (cursor.ok() && folders_.size() < kMaxNames) {
    const std::string_view name = cursor.c_string();
    if (name.empty()) break;
    folders_.push_back(name);
  }
  files_.emplace_back();  // counted from 1
  while (cursor.ok() && files_.size() < kMaxNames) {
    Entry entry;
    entry.name = cursor.c_string();
    if (entry.name.empty()) break;
    entry.folder = cursor.uleb();
    cursor.uleb();  // time
    cursor.uleb();  // size
    files_.push_back(entry);
  }
}

bool LineProgram::read_new_names(Cursor& cursor, const DebugFile& file, bool folders) {
  std::vector<Format> formats(cursor.u8());
  for (Format& format : formats) {
    format.type = cursor.uleb();
    format.form = static_cast<std::uint16_t>(cursor.uleb());
  }
  // Forms without bytes would let a few of them stand for any number of names.
  const std::uint64_t count = std::min({cursor.uleb(), cursor.left(), kMaxNames});
  for (std::uint64_t i = 0; i < count && cursor.ok(); ++i) {
    Entry entry;
    for (const Format& format : formats) {
      std::uint64_t number = 0;
      std::string_view text;
      switch (format.form) {
        case kString:
          text = cursor.c_string();
          break;
        case kLineStrp:
          text = file.text(Section::line_str, offset_in(cursor, offset_size_));
          break;
        case kStrp:
          text = file.text(Section::str, offset_in(cursor, offset_size_));
          break;
        case kUdata:
          number = cursor.uleb();
          break;
        case kData1:
          number = cursor.u8();
          break;
        case kData2:
          number = cursor.u16();
          break;
        case kData4:
          number = cursor.u32();
          break;
        case kData8:
          number = cursor.u64();
          break;
        case kData16:
          cursor.skip(16);
          break;
        case kBlock:
          cursor.skip(cursor.uleb());
          break;
        default:
          return false;
      }
      if (format.type == kPath) entry.name = text;
      if (format.type == kDirectoryIndex) entry.folder = number;
    }
    if (!cursor.ok()) return false;
    if (folders) {
      folders_.push_back(entry.name);
    } else {
      files_.push_back(entry);
    }
  }
  return cursor.ok();
}

std::string LineProgram::path(std::uint64_t number) const {
  if (number >= files_.size() || files_[number].name.empty()) return {};
  const Entry& entry = files_[number];
  std::string result;
  const auto append = [&result](std::string_view part) {
    if (part.starts_with('/')) result.clear();
    if (!result.empty() && result.back() != '/') result += '/';
    result += part;
  };
  // DWARF 5 has the compiler's folder as its folder 0; it may be relative in turn.
  if (version_ < 5 || folders_.empty()) append(compile_folder_);
  if (version_ >= 5 && !folders_.empty()) append(folders_[0]);
  if (entry.folder < folders_.size() && entry.folder > 0) append(folders_[entry.folder]);
  append(entry.name);
  return result;
}

template <class Sink>
void LineProgram::walk(Sink& rows) const {
  Registers state;
  Cursor cursor(code_);
  const auto advance = [&](std::uint64_t operations) {
    if (max_operations_ == 1) {  // all but VLIW machines, without a division
      state.address += min_length_ * operations;
      return;
    }
    state.operation += operations;
    state.address += min_length_ * (state.operation / max_operations_);
    state.operation %= max_operations_;
  };
  while (!cursor.at_end()) {
    const std::uint8_t opcode = cursor.u8();
    if (opcode >= opcode_base_) {
      const unsigned special = opcode - opcode_base_;
      advance(special / line_range_);
      state.line +=
          static_cast<std::uint64_t>(line_base_ + static_cast<int>(special % line_range_));
      rows.add(state.address, state.file, state.line, false);
      continue;
    }
    switch (opcode) {
      case kExtended: {
        const Bytes operand = cursor.take(cursor.uleb());
        if (operand.empty()) break;
        if (operand[0] == kEndSequence) {
          rows.add(state.address, state.file, state.line, true);
          state = {};
        } else if (operand[0] == kSetAddress) {
          state.address = load<std::uint64_t>(operand, 1).value_or(0);
          state.operation = 0;
        } else if constexpr (requires { rows.inlined_call(0, 0); }) {
          if (operand[0] == kInlinedCall) {
            Cursor call(operand, 1);
            const std::uint64_t caller = call.uleb();
            rows.inlined_call(caller, call.uleb());
          }
        }
        break;
      }
      case kCopy:
        rows.add(state.address, state.file, state.line, false);
        break;
      case kAdvancePc:
        advance(cursor.uleb());
        break;
      case kAdvanceLine:
        state.line += static_cast<std::uint64_t>(cursor.sleb());
        break;
      case kSetFile:
        state.file = cursor.uleb();
        break;
      case kConstAddPc:
        advance((255u - opcode_base_) / line_range_);
        break;
      case kFixedAdvancePc:
        state.address += cursor.u16();
        state.operation = 0;
        break;
      default:  // standard ones without meaning for us, and unknown ones
        for (std::uint8_t i = 0; i < lengths_[opcode - 1u]; ++i) cursor.uleb();
    }
  }
}
void LineProgram::run(std::span<const std::uint64_t> addresses, const Rows::Found& found) const {
  Rows rows(addresses, found);
  walk(rows);
}

void LineProgram::run_inlined(std::span<const std::uint64_t> addresses,
                              const InlinedRows::Found& found) const {
  InlinedRows rows(addresses, found);
  walk(rows);
}

}  // namespace pm::dwarf
