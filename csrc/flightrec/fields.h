// What the reader of flight recorders takes of a dump: the fields in the order of their facts.
#pragma once

#include "base/fields.h"
#include "flightrec/dump.h"

namespace pm {

template <>
inline constexpr auto kFields<flightrec::Frame> = std::tuple(
    field("name", &flightrec::Frame::name), field<Told::or_none>("file", &flightrec::Frame::file),
    field<Told::or_none>("line", &flightrec::Frame::line));

template <>
inline constexpr auto kFields<flightrec::Members> = std::tuple(
    field("group", &flightrec::Members::group), field("words", &flightrec::Members::words),
    field<Told::or_none>("text", &flightrec::Members::text),
    field("ranks", &flightrec::Members::ranks));

template <>
inline constexpr auto kFields<flightrec::Status> = std::tuple(
    field("group_number", &flightrec::Status::group_number),
    field("enqueued", &flightrec::Status::enqueued), field("started", &flightrec::Status::started),
    field("completed", &flightrec::Status::completed));

}  // namespace pm
