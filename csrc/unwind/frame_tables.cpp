#include "unwind/frame_tables.h"

#include <algorithm>

#include "elfcore/unpack.h"

namespace pm::unwind {
namespace {

// DW_EH_PE_*: low four bits the form, bits 4-6 what it is relative to, bit 7 "indirect".
constexpr std::uint8_t kOmitted = 0xff;
constexpr std::uint8_t kIndirect = 0x80;
constexpr std::uint8_t kFormMask = 0x0f, kBaseMask = 0x70;
constexpr std::uint8_t kPcRelative = 0x10, kDataRelative = 0x30, kAligned = 0x50;

constexpr std::uint64_t kMaxProgram = 1 << 18;  // bytes of one call frame program
constexpr std::size_t kMaxRanges = 8'000'000;

// Size of a table entry's half, for encodings of fixed size; 0 for the others.
std::uint64_t form_size(std::uint8_t encoding) {
  switch (encoding & kFormMask) {
    case 0x02:
    case 0x0a:
      return 2;
    case 0x03:
    case 0x0b:
      return 4;
    case 0x00:
    case 0x04:
    case 0x08:
    case 0x0c:
      return 8;
    default:
      return 0;
  }
}

std::uint64_t read_form(Cursor& cursor, std::uint8_t encoding, bool& known) {
  switch (encoding & kFormMask) {
    case 0x00:
    case 0x04:
    case 0x08:
    case 0x0c:
      return cursor.u64();
    case 0x01:
      return cursor.uleb();
    case 0x02:
      return cursor.u16();
    case 0x03:
      return cursor.u32();
    case 0x09:
      return static_cast<std::uint64_t>(cursor.sleb());
    case 0x0a:
      return static_cast<std::uint64_t>(std::int64_t{cursor.get<std::int16_t>()});
    case 0x0b:
      return static_cast<std::uint64_t>(std::int64_t{cursor.get<std::int32_t>()});
    default:
      known = false;
      return 0;
  }
}

// The head of a CIE or FDE.
struct EntryHead {
  Bytes body;                  // behind the length
  std::uint64_t body_address;  // address of the body
  std::uint64_t id;
  std::uint64_t id_size;
};

std::optional<EntryHead> read_head(Bytes bytes, std::uint64_t address) {
  Cursor cursor(bytes);
  std::uint64_t length = cursor.u32();
  std::uint64_t id_size = 4;
  if (length == 0xffffffff) {
    length = cursor.u64();
    id_size = 8;
  }
  const std::uint64_t head = cursor.offset();
  const Bytes body = cursor.take(length);
  if (!cursor.ok() || length < id_size) return std::nullopt;
  const std::uint64_t id =
      id_size == 8 ? *load<std::uint64_t>(body, 0) : *load<std::uint32_t>(body, 0);
  return EntryHead{body, address + head, id, id_size};
}

}  // namespace

std::optional<std::uint64_t> read_encoded(Cursor& cursor, std::uint8_t encoding,
                                          std::uint64_t address, std::uint64_t data_base) {
  if (encoding == kOmitted) return std::nullopt;
  const std::uint64_t here = address + cursor.offset();
  bool known = true;
  std::uint64_t value = read_form(cursor, encoding, known);
  if (!known || !cursor.ok()) return std::nullopt;
  switch (encoding & kBaseMask) {
    case 0x00:
      break;
    case kPcRelative:
      value += here;
      break;
    case kDataRelative:
      value += data_base;
      break;
    default:  // text and function relative do not occur on these machines
      return std::nullopt;
  }
  // Indirect pointers (personality routines) are read over, never followed.
  return value;
}

FrameTables::FrameTables(const elfcore::Image& image) : image_(&image) {
  if (const Elf64_Phdr* const header = image.program_header(PT_GNU_EH_FRAME)) {
    read_header(header->p_vaddr, header->p_filesz);
  }
  if (has_table_) return;
  for (const elfcore::ImageSection& section : image.sections()) {
    if (section.type == SHT_NOBITS) continue;
    if (section.name == ".eh_frame") {
      eh_frame_ = section.address;
      eh_frame_size_ = section.size;
    }
  }
}

FrameTables::FrameTables(const elfcore::Memory& memory, const elfcore::Module& module)
    : memory_(&memory), bias_(module.bias) {
  const Bytes first = memory.core().dumped_at(module.start);
  const auto header = load<Elf64_Ehdr>(first, 0);
  if (!header || header->e_phentsize != sizeof(Elf64_Phdr)) return;
  for (std::uint64_t i = 0; i < header->e_phnum; ++i) {
    const auto row = load<Elf64_Phdr>(first, header->e_phoff + i * sizeof(Elf64_Phdr));
    if (!row) return;
    if (row->p_type == PT_GNU_EH_FRAME) read_header(row->p_vaddr, row->p_memsz);
  }
}

Bytes FrameTables::at(std::uint64_t address, Flavour flavour) const noexcept {
  if (flavour == Flavour::debug) return clip(debug_frame_, address, debug_frame_.size());
  return image_ ? image_->at(address) : memory_->at(address + bias_);
}

void FrameTables::read_header(std::uint64_t address, std::uint64_t size) {
  const Bytes bytes = clip(at(address, Flavour::eh), 0, size);
  Cursor cursor(bytes);
  const std::uint8_t version = cursor.u8(), frame_encoding = cursor.u8(),
                     count_encoding = cursor.u8();
  table_encoding_ = cursor.u8();
  if (!cursor.ok() || version != 1) return;
  header_ = address;
  const auto frame = read_encoded(cursor, frame_encoding, address, address);
  if (frame && !(frame_encoding & kIndirect)) {
    eh_frame_ = *frame;
    eh_frame_size_ = at(*frame, Flavour::eh).size();
  }
  const auto count = read_encoded(cursor, count_encoding, address, address);
  const std::uint64_t half = table_encoding_ == kOmitted ? 0 : form_size(table_encoding_);
  if (!count || *count == 0 || half == 0 || (table_encoding_ & kIndirect)) return;
  table_offset_ = cursor.offset();
  table_ = clip(bytes, table_offset_, bytes.size());
  table_count_ = std::min(*count, table_.size() / (2 * half));
  has_table_ = table_count_ > 0;
}

std::optional<Fde> FrameTables::find_in_header(std::uint64_t address, bool& usable) const {
  const std::uint64_t half = form_size(table_encoding_);
  const auto value = [&](std::uint64_t row, std::uint64_t column) {
    Cursor cursor(table_, (2 * row + column) * half);
    return read_encoded(cursor, table_encoding_, header_ + table_offset_, header_);
  };
  std::uint64_t low = 0, high = table_count_;  // first row that starts above the address
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    const auto start = value(middle, 0);
    if (!start) {
      usable = false;
      return std::nullopt;
    }
    if (*start <= address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == 0) return std::nullopt;
  const auto entry = value(low - 1, 1);
  auto fde = entry ? read_fde(*entry, Flavour::eh) : std::nullopt;
  if (!fde) usable = false;
  if (!fde || address < fde->start || address >= fde->end) return std::nullopt;
  return fde;
}

std::optional<Cie> FrameTables::read_cie(std::uint64_t entry, Flavour flavour) const {
  const auto head = read_head(at(entry, flavour), entry);
  if (!head) return std::nullopt;
  const std::uint64_t all_ones = head->id_size == 8 ? ~std::uint64_t{0} : 0xffffffff;
  if (head->id != (flavour == Flavour::eh ? 0 : all_ones)) return std::nullopt;
  Cursor cursor(head->body, head->id_size);
  Cie cie;
  const std::uint8_t version = cursor.u8();
  const std::string_view augmentation = cursor.c_string();
  if (version == 4) {
    const std::uint8_t address_size = cursor.u8(), segment_size = cursor.u8();
    if (address_size != 8 || segment_size != 0) return std::nullopt;
  } else if (version != 1 && version != 3) {
    return std::nullopt;
  }
  if (augmentation.starts_with("eh")) cursor.u64();  // gcc before 3.0
  cie.code_factor = cursor.uleb();
  cie.data_factor = cursor.sleb();
  cie.return_column = version == 1 ? cursor.u8() : cursor.uleb();
  if (augmentation.starts_with('z')) {
    cie.sized_augmentation = true;
    const std::uint64_t size = cursor.uleb();
    const std::uint64_t rest = cursor.offset() + size;
    bool known = true;
    for (const char letter : augmentation.substr(1)) {
      if (!known) break;
      if (letter == 'R') {
        cie.pointer_encoding = cursor.u8();
      } else if (letter == 'P') {
        const std::uint8_t encoding = cursor.u8();
        if ((encoding & kBaseMask) == kAligned) return std::nullopt;
        known = encoding == kOmitted ||
                read_encoded(cursor, encoding & (kFormMask | kIndirect), 0, 0).has_value();
      } else if (letter == 'L') {
        cursor.u8();
      } else if (letter == 'S') {
        cie.signal_frame = true;
      } else if (letter != 'B' && letter != 'G') {  // aarch64: key B signs, memory tagging
        known = false;  // the size of the augmentation says where to go on
      }
    }
    if (!cursor.ok() || rest > head->body.size()) return std::nullopt;
    cursor = Cursor(head->body, rest);
  } else if (!augmentation.empty() && augmentation != "eh") {
    return std::nullopt;
  }
  cie.program = cursor.take(std::min(cursor.left(), kMaxProgram));
  if (!cursor.ok()) return std::nullopt;
  return cie;
}

std::optional<Fde> FrameTables::read_fde(std::uint64_t entry, Flavour flavour) const {
  const auto head = read_head(at(entry, flavour), entry);
  if (!head) return std::nullopt;
  // In .eh_frame the distance back from the field to the CIE, in .debug_frame its offset.
  const std::uint64_t cie_at = flavour == Flavour::eh ? head->body_address - head->id : head->id;
  if (flavour == Flavour::eh && head->id == 0) return std::nullopt;
  auto cie = read_cie(cie_at, flavour);
  if (!cie) return std::nullopt;
  Cursor cursor(head->body, head->id_size);
  Fde fde;
  const auto start = read_encoded(cursor, cie->pointer_encoding, head->body_address, header_);
  const auto size = read_encoded(cursor, cie->pointer_encoding & kFormMask, 0, 0);
  if (!start || !size || *size > UINT64_MAX - *start) return std::nullopt;
  fde.start = *start;
  fde.end = *start + *size;
  if (cie->sized_augmentation) cursor.skip(cursor.uleb());
  fde.program_address = head->body_address + cursor.offset();
  fde.program = cursor.take(std::min(cursor.left(), kMaxProgram));
  if (!cursor.ok()) return std::nullopt;
  fde.cie = *cie;
  return fde;
}

// All entries, one by one, for files without a search table.
std::vector<FrameTables::Range> FrameTables::list(Flavour flavour, Budget& budget) const {
  std::vector<Range> ranges;
  const std::uint64_t start = flavour == Flavour::eh ? eh_frame_ : 0;
  const Bytes bytes =
      flavour == Flavour::eh ? clip(at(start, flavour), 0, eh_frame_size_) : debug_frame_;
  std::uint64_t offset = 0;
  while (offset + 4 <= bytes.size() && ranges.size() < kMaxRanges &&
         Budget::spend(budget.instructions)) {
    if (*load<std::uint32_t>(bytes, offset) == 0) {
      if (flavour == Flavour::eh) break;  // terminator
      offset += 4;
      continue;
    }
    const auto head = read_head(clip(bytes, offset, bytes.size()), start + offset);
    if (!head) break;
    if (const auto fde = read_fde(start + offset, flavour); fde && fde->start < fde->end) {
      ranges.push_back({fde->start, fde->end, start + offset});
    }
    offset = head->body_address + head->body.size() - start;
  }
  std::stable_sort(ranges.begin(), ranges.end(),
                   [](const Range& a, const Range& b) { return a.start < b.start; });
  return ranges;
}

std::optional<Fde> FrameTables::find_in_index(const std::vector<Range>& index,
                                              std::uint64_t address, Flavour flavour) const {
  const auto above =
      std::upper_bound(index.begin(), index.end(), address,
                       [](std::uint64_t value, const Range& row) { return value < row.start; });
  if (above == index.begin()) return std::nullopt;
  const Range& row = *std::prev(above);
  if (address >= row.end) return std::nullopt;
  return read_fde(row.entry, flavour);
}

std::optional<Fde> FrameTables::find(std::uint64_t address, Budget& budget) {
  if (has_table_) {
    bool usable = true;
    if (auto fde = find_in_header(address, usable)) return fde;
    if (!usable) has_table_ = false;  // lies: believe the entries themselves
  }
  if (!has_table_ && eh_frame_ != 0) {
    if (!eh_index_) eh_index_ = list(Flavour::eh, budget);
    if (auto fde = find_in_index(*eh_index_, address, Flavour::eh)) return fde;
  }
  if (!debug_index_) {
    if (image_) {
      const auto section = image_->section(".debug_frame");
      constexpr std::uint64_t kCompressed = SHF_COMPRESSED;
      if (section) debug_frame_ = image_->content(*section);
      if (section && (section->flags & kCompressed)) {  // Go's linker packs it
        unpacked_ = elfcore::unpack_section(debug_frame_);
        debug_frame_ = unpacked_;
      }
    }
    debug_index_ = list(Flavour::debug, budget);
  }
  return find_in_index(*debug_index_, address, Flavour::debug);
}

}  // namespace pm::unwind
