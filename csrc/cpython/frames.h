// The interpreter's own chains of frames.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cpython/code.h"
#include "cpython/heap.h"
#include "cpython/python.h"

namespace pm::cpython {

// Addresses only: a chain may be long, and most of it is then left out.
struct FramePlace {
  std::uint64_t code = 0;
  std::int64_t offset = 0;   // of the instruction, in bytes from the first
  std::uint64_t locals = 0;  // address of the first slot
  unsigned evaluators = 0;   // see Frame
};

struct Chain {
  std::vector<FramePlace> frames;  // innermost first
  unsigned idle_evaluators = 0;
  std::string stopped;
};

class Frames {
 public:
  Frames(const Heap& heap, Codes& codes) : heap_(heap), codes_(codes) {}

  Chain walk(std::uint64_t thread_state) const;
  // The same from a frame object on.
  Chain walk_from(std::uint64_t frame_object) const;
  // Names, lines and values of the chain's frames, its middle left out where it is too long.
  void describe(const Chain& chain, const Options& options, Thread& thread) const;
  // The code of a frame object, and where it stands in it.
  std::optional<FramePlace> place_of(std::uint64_t frame_object) const;
  // The same of a frame without an object (3.11 and later).
  std::optional<FramePlace> place_in(std::uint64_t frame) const;

 private:
  Chain walk_objects(std::uint64_t frame) const;
  Chain walk_internal(std::uint64_t frame) const;
  FramePlace internal_place(std::uint64_t frame) const;
  std::uint64_t instructions_of(std::uint64_t frame, std::uint64_t code) const;
  bool incomplete(const FramePlace& place, std::uint8_t owner) const;
  bool is_shim(std::uint8_t owner) const noexcept;
  void add_locals(const FramePlace& place, Frame& frame) const;

  const Heap& heap_;
  Codes& codes_;
};

}  // namespace pm::cpython
