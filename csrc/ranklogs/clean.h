// Text as a terminal would have shown it last.
#pragma once

#include <string>
#include <string_view>

namespace pm::ranklogs {

inline bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

// Takes out escape sequences (ECMA-48: CSI, OSC, two characters) and other control characters but
// tabs and carriage returns. `to` is the room for it; the result lies in it or is `line` itself.
std::string_view without_controls(std::string_view line, std::string& to);

// How a line of docker's json-file log begins.
inline constexpr std::string_view kDockerHead = "{\"log\":\"";

// Puts what the program wrote into `text`, without its line end; false where it is no such line.
bool out_of_docker(std::string_view line, std::string& text);

// The size of a progress bar, as tqdm draws one, with which a text begins and behind which others
// have written; 0 where there is none.
std::size_t bar_size(std::string_view text) noexcept;

// Without how often Ray left a line out that several processes had printed.
std::string_view without_count(std::string_view text) noexcept;

// Without a byte order mark of UTF-8, or of UTF-16 whose zeros were left out.
std::string_view without_mark(std::string_view text) noexcept;

bool has_controls(std::string_view line) noexcept;

// Whether characters stand in it that no text has; those of terminals (backspace, escape, bells) it
// may have.
bool is_binary(std::string_view line) noexcept;

}  // namespace pm::ranklogs
