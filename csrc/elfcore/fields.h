// What a report calls the fields of what a core says: the names of _native.pyi.
#pragma once

#include <array>
#include <string_view>

#include "base/fields.h"
#include "elfcore/address.h"
#include "elfcore/cpp_exception.h"
#include "elfcore/instruction.h"
#include "elfcore/modules.h"
#include "elfcore/python_fatal.h"
#include "elfcore/slim_note.h"

namespace pm::elfcore {

constexpr std::string_view word_of(Origin origin) noexcept {
  constexpr std::array<std::string_view, 3> kWords = {"kernel", "gcore", "tool"};
  return kWords[static_cast<std::size_t>(origin)];
}

constexpr std::string_view word_of(ModuleStatus status) noexcept {
  constexpr std::array<std::string_view, 4> kWords = {"ok", "missing", "mismatch", "unverified"};
  return kWords[static_cast<std::size_t>(status)];
}

}  // namespace pm::elfcore

namespace pm {

template <>
inline constexpr auto kFields<elfcore::SignalInfo> = std::tuple(
    field("number", &elfcore::SignalInfo::number), field("code", &elfcore::SignalInfo::code),
    field("address", &elfcore::SignalInfo::address),
    field("sender_pid", &elfcore::SignalInfo::sender_pid),
    field("sender_uid", &elfcore::SignalInfo::sender_uid),
    field("system_call", &elfcore::SignalInfo::system_call),
    field("call_machine", &elfcore::SignalInfo::call_machine));

template <>
inline constexpr auto kFields<elfcore::AddressFacts> = std::tuple(
    field("value", &elfcore::AddressFacts::value), field("mapped", &elfcore::AddressFacts::mapped),
    field("start", &elfcore::AddressFacts::start), field("end", &elfcore::AddressFacts::end),
    field<Told::or_none>("permissions", &elfcore::AddressFacts::permissions),
    field<Told::or_none>("kind", &elfcore::AddressFacts::kind),
    field<Told::or_none>("path", &elfcore::AddressFacts::path),
    field("file_offset", &elfcore::AddressFacts::file_offset),
    field("above_start", &elfcore::AddressFacts::above_start),
    field<Told::or_none>("above_kind", &elfcore::AddressFacts::above_kind),
    field("below_end", &elfcore::AddressFacts::below_end));

template <>
inline constexpr auto kFields<elfcore::MemoryKind> = std::tuple(
    field("kind", &elfcore::MemoryKind::kind), field("mapped", &elfcore::MemoryKind::mapped),
    field("dumped", &elfcore::MemoryKind::dumped));

template <>
inline constexpr auto kFields<elfcore::Instruction> =
    std::tuple(field("pc", &elfcore::Instruction::pc), field("code", &elfcore::Instruction::code),
               field("operand", &elfcore::Instruction::operand),
               field("operand_address", &elfcore::Instruction::operand_address),
               field<Told::or_none>("access", &elfcore::Instruction::access),
               field<Told::or_none>("feature", &elfcore::Instruction::feature),
               field("target", &elfcore::Instruction::target),
               field<Told::or_none>("transfer", &elfcore::Instruction::transfer),
               field("alignment", &elfcore::Instruction::alignment),
               field("divisor", &elfcore::Instruction::divisor));

template <>
inline constexpr auto kFields<elfcore::CppException> = std::tuple(
    field("tid", &elfcore::CppException::tid), field("type", &elfcore::CppException::type),
    field("what", &elfcore::CppException::what),
    field("found_by", &elfcore::CppException::found_by),
    field("state", &elfcore::CppException::state),
    field("base_types", &elfcore::CppException::base_types));

template <>
inline constexpr auto kFields<elfcore::PythonFatal> =
    std::tuple(field("function", &elfcore::PythonFatal::function),
               field("message", &elfcore::PythonFatal::message));

template <>
inline constexpr auto kFields<elfcore::Module> =
    std::tuple(field("path", &elfcore::Module::path), field("start", &elfcore::Module::start),
               field("end", &elfcore::Module::end), field("build_id", &elfcore::Module::build_id),
               field<Told::or_none>("disk_path", &elfcore::Module::disk_path),
               field("disk_build_id", &elfcore::Module::disk_build_id),
               field("status", &elfcore::Module::status), field("bias", &elfcore::Module::bias),
               field("deleted", &elfcore::Module::deleted));

template <>
inline constexpr auto kFields<elfcore::SlimInfo> =
    std::tuple(field("source_bytes", &elfcore::SlimInfo::source_bytes),
               field("source_expected_bytes", &elfcore::SlimInfo::expected_bytes),
               field("lost_bytes", &elfcore::SlimInfo::lost_bytes));

}  // namespace pm
