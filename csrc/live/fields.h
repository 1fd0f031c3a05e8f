// What a report calls the fields of how a live process was read: the names of _native.pyi.
#pragma once

#include "base/fields.h"
#include "live/snapshot.h"

namespace pm {

template <>
inline constexpr auto kFields<live::Outcome> =
    std::tuple(field("stopped", &live::Outcome::stopped), field("refused", &live::Outcome::refused),
               field("stopped_seconds", &live::Outcome::stopped_seconds),
               field("unknown", &live::Outcome::unknown));

}  // namespace pm
