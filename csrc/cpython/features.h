// How versions of CPython differ in what no offset tells. Where a version is new, this table says
// what must be looked at; which offsets it publishes is in debug_offsets.cpp.
#pragma once

#include <cstdint>

#include "cpython/layout.h"

namespace pm::cpython {

enum class LineTable : std::uint8_t { lnotab, ranges, locations };

// Where an object whose type has no __dictoffset__ keeps its attributes.
enum class Attributes : std::uint8_t {
  at_offset,       // a dict, wherever the type says
  two_words,       // in front of it: one for a dict, one for values
  one_word,        // in front of it: a dict, or values where the word is odd
  inline_or_dict,  // values behind it, unless there is a dict
};

struct Features {
  LineTable line_table = LineTable::lnotab;
  Attributes attributes = Attributes::at_offset;
  bool frame_objects = false;      // a frame object for each call, with a stack of blocks
  bool counts_code_units = false;  // f_lasti counts units of two bytes
  bool shim_frames = false;        // one below the first frame of each evaluator call
  bool tagged_sizes = false;       // of int: the sign in two bits, the digits above a third
  bool mutex_locks = false;        // threading locks are a PyMutex (_PyRecursiveMutex)
  bool tagged_references = false;  // in frames (_PyStackRef); small numbers have no object there
  bool split_refcount = false;     // 32 bits of count, 16 of overflow, 16 of flags
  bool unbound_exit = false;       // `with` leaves __exit__ and the object (LOAD_SPECIAL)
  bool base_frame = false;         // a sentinel below the outermost frame, for profilers

  static constexpr Features of(Version version) noexcept {
    const unsigned minor = version.minor();
    Features made;
    made.line_table = minor >= 11   ? LineTable::locations
                      : minor == 10 ? LineTable::ranges
                                    : LineTable::lnotab;
    made.attributes = minor >= 13   ? Attributes::inline_or_dict
                      : minor == 12 ? Attributes::one_word
                      : minor == 11 ? Attributes::two_words
                                    : Attributes::at_offset;
    made.frame_objects = minor <= 10;
    made.counts_code_units = minor == 10;
    made.shim_frames = made.tagged_sizes = minor >= 12;
    made.mutex_locks = minor >= 13;
    made.tagged_references = made.split_refcount = made.unbound_exit = minor >= 14;
    made.base_frame = minor >= 15;
    return made;
  }
};

}  // namespace pm::cpython
