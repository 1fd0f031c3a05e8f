// Where a module says how to unwind: .eh_frame_hdr, .eh_frame, .debug_frame.
//
// Formats: Linux Standard Base Core 5.0, "Exception Frames"; DWARF 5, section 6.4.1.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "elfcore/modules.h"

namespace pm::unwind {

// Common information entry.
struct Cie {
  std::uint64_t code_factor = 1;
  std::int64_t data_factor = 1;
  std::uint64_t return_column = 0;
  std::uint8_t pointer_encoding = 0;  // DW_EH_PE_*; 0 is an absolute 8-byte address
  bool sized_augmentation = false;    // 'z'
  bool signal_frame = false;          // 'S'
  Bytes program;
};

// Frame description entry: how to unwind from [start, end), link-time addresses.
struct Fde {
  Cie cie;
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  Bytes program;
  std::uint64_t program_address = 0;  // pointers in the program may be relative to themselves
};

// Work allowed over one core. A crafted file can make each of its frames expensive; honest ones
// come nowhere near.
struct Budget {
  std::uint64_t instructions = 20'000'000;  // of call frame programs, and entries walked
  std::uint64_t scanned_words = 4'000'000;
  std::uint64_t frames = 8'000'000;

  static bool spend(std::uint64_t& what, std::uint64_t amount = 1) noexcept {
    if (what < amount) {
      what = 0;
      return false;
    }
    what -= amount;
    return true;
  }
};

// Reads a pointer encoded as DW_EH_PE_*. `address` is that of the cursor's first byte, `data_base`
// what DW_EH_PE_datarel refers to. Nothing for encodings that need the running process.
std::optional<std::uint64_t> read_encoded(Cursor& cursor, std::uint8_t encoding,
                                          std::uint64_t address, std::uint64_t data_base);

class FrameTables {
 public:
  // Of a file whose text may be believed, or of an ELF image in the core (vdso).
  explicit FrameTables(const elfcore::Image& image);
  // Of a module without a file, as far as the core holds its tables.
  FrameTables(const elfcore::Memory& memory, const elfcore::Module& module);

  // The entry that covers a link-time address.
  std::optional<Fde> find(std::uint64_t address, Budget& budget);

 private:
  enum class Flavour { eh, debug };
  struct Range {
    std::uint64_t start, end, entry;
  };

  Bytes at(std::uint64_t address, Flavour flavour) const noexcept;
  void read_header(std::uint64_t address, std::uint64_t size);
  std::optional<Fde> find_in_header(std::uint64_t address, bool& usable) const;
  std::optional<Fde> find_in_index(const std::vector<Range>& index, std::uint64_t address,
                                   Flavour flavour) const;
  std::optional<Cie> read_cie(std::uint64_t entry, Flavour flavour) const;
  std::optional<Fde> read_fde(std::uint64_t entry, Flavour flavour) const;
  std::vector<Range> list(Flavour flavour, Budget& budget) const;

  const elfcore::Image* image_ = nullptr;
  const elfcore::Memory* memory_ = nullptr;
  std::uint64_t bias_ = 0;
  std::uint64_t eh_frame_ = 0;  // address; 0: none
  std::uint64_t eh_frame_size_ = 0;
  Bytes debug_frame_;
  std::vector<std::uint8_t> unpacked_;  // where it is compressed in the file
  std::uint64_t header_ = 0;            // address of .eh_frame_hdr
  Bytes table_;                         // its search table
  std::uint64_t table_offset_ = 0;
  std::uint64_t table_count_ = 0;
  std::uint8_t table_encoding_ = 0xff;
  bool has_table_ = false;
  std::optional<std::vector<Range>> eh_index_;
  std::optional<std::vector<Range>> debug_index_;
};

}  // namespace pm::unwind
