// What a language's run-time said when it ended the process, where its memory still has the words.
#pragma once

#include <optional>
#include <string>

#include "unwind/symbols.h"
#include "unwind/unwinder.h"

namespace pm::unwind {

struct PanicText {
  std::string language;  // "C" (of a failed check), "Go", "Rust", ".NET", "JavaScript"
  std::string text;      // may have several lines
};

// Of the crashed thread's stack; nothing where no run-time's end stands on it or its words are
// gone.
std::optional<PanicText> find_panic_text(const elfcore::Memory& memory, const Stack& stack,
                                         const Symbolizer& names);

}  // namespace pm::unwind
