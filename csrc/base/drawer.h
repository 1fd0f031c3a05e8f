// Descriptors that lie in a socket until somebody takes them out: whoever does not hold them does
// not keep their pipes open.
#pragma once

#include <vector>

namespace pm {

// Returns the descriptor of a drawer that holds copies of these (at most 8); -1, and errno.
int put_away(const std::vector<int>& descriptors) noexcept;

// Takes out what was put away: new descriptors, close-on-exec; none if somebody was here before.
std::vector<int> take_out(int drawer);

}  // namespace pm
