// What a report calls the fields of a log of many ranks: the names of _native.pyi.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/fields.h"
#include "ranklogs/reader.h"

namespace pm {

// What stands in front of the lines.
inline std::vector<std::string_view> prefix_names(const ranklogs::Grammar& grammar) {
  std::vector<std::string_view> names;
  if (grammar.time) names.emplace_back("time");
  if (grammar.task) names.emplace_back("srun");
  if (grammar.node) names.emplace_back("node");
  if (grammar.tee) names.emplace_back("tee");
  if (grammar.number) names.emplace_back("number");
  if (grammar.service) names.emplace_back("service");
  return names;
}

template <>
inline constexpr auto kFields<ranklogs::PlainLine> =
    std::tuple(field("line", &ranklogs::PlainLine::line), field("text", &ranklogs::PlainLine::text),
               field("since", [](const ranklogs::PlainLine& one) { return one.again.since; }),
               field("times", [](const ranklogs::PlainLine& one) { return one.again.times; }));

template <>
inline constexpr auto kFields<ranklogs::Label> = std::tuple(
    field<Told::or_none>("host", &ranklogs::Label::host),
    field<Told::or_none>("pod", &ranklogs::Label::pod),
    field<Told::or_none>("worker", &ranklogs::Label::worker),
    field<Told::or_none>("section", &ranklogs::Label::section),
    field<Told::or_none>("local", &ranklogs::Label::local),
    field<Told::or_none>("rank", &ranklogs::Label::rank),
    field<Told::or_none>("task", &ranklogs::Label::task),
    field<Told::or_none>("pid", &ranklogs::Label::pid), field("lines", &ranklogs::Label::lines),
    field("first_line", &ranklogs::Label::first_line),
    field("last_line", &ranklogs::Label::last_line), field("at_marks", &ranklogs::Label::at_marks),
    field("last_words", &ranklogs::Label::last_words),
    field<Told::values>("tail", &ranklogs::Label::tail),
    field<Told::values>("work", &ranklogs::Label::work));

template <>
inline constexpr auto kFields<ranklogs::Row> =
    std::tuple(field("line", &ranklogs::Row::line), field("ordinal", &ranklogs::Row::ordinal),
               field("text", &ranklogs::Row::text));

template <>
inline constexpr auto kFields<ranklogs::Region> = std::tuple(
    field("label", &ranklogs::Region::label), field("kinds", &ranklogs::Region::kinds),
    field("cut", &ranklogs::Region::cut), field<Told::values>("rows", &ranklogs::Region::rows),
    field("before", &ranklogs::Region::before),
    field("streams",
          [](const ranklogs::Region& one) {
            std::string streams;
            for (const ranklogs::Row& row : one.rows) streams += row.stream ? row.stream : ' ';
            return streams;
          }),
    field("begins", [](const ranklogs::Region& one) {
      std::vector<std::uint64_t> lines;
      for (const ranklogs::Row& row : one.rows) {
        if (row.begins) lines.push_back(row.line);
      }
      return lines;
    }));

template <>
inline constexpr auto kFields<ranklogs::Link> =
    std::tuple(field("host", &ranklogs::Link::host), field("from", &ranklogs::Link::from),
               field("to", &ranklogs::Link::to), field("how", &ranklogs::Link::how),
               field("count", &ranklogs::Link::count), field("line", &ranklogs::Link::line));

template <>
inline constexpr auto kFields<ranklogs::Mark> =
    std::tuple(field("line", &ranklogs::Mark::line), field("label", &ranklogs::Mark::label),
               field("text", &ranklogs::Mark::text));

template <>
inline constexpr auto kFields<ranklogs::Log> = std::tuple(
    field("labels", &ranklogs::Log::labels),
    field<Told::values>("regions", &ranklogs::Log::regions),
    field<Told::values>("links", &ranklogs::Log::links),
    field<Told::values>("marks", &ranklogs::Log::marks),
    field("grammar", [](const ranklogs::Log& log) { return prefix_names(log.grammar); }),
    field("bytes", &ranklogs::Log::bytes), field("zeros", &ranklogs::Log::zeros),
    field("lines", &ranklogs::Log::lines), field("binary_lines", &ranklogs::Log::binary_lines),
    field("cut_lines", &ranklogs::Log::cut_lines), field("left_out", &ranklogs::Log::left_out),
    field("nameless", &ranklogs::Log::nameless));

}  // namespace pm
