// What a report calls the fields of what a core of GPUs says: the names of _native.pyi.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "base/fields.h"
#include "cudacore/amd.h"
#include "cudacore/core.h"

namespace pm::cudacore {

constexpr std::string_view word_of(Source source) noexcept {
  constexpr std::array<std::string_view, 4> kWords = {"lane", "warp", "sm", "trap"};
  return kWords[static_cast<std::size_t>(source)];
}

}  // namespace pm::cudacore

namespace pm {

template <>
inline constexpr auto kFields<cudacore::Place> =
    std::tuple(field<Told::or_none>("function", &cudacore::Place::function),
               field<Told::or_none>("file", &cudacore::Place::file),
               field("line", &cudacore::Place::line), field("inlined", &cudacore::Place::inlined));

template <>
inline constexpr auto kFields<cudacore::Frame> =
    std::tuple(field("pc", &cudacore::Frame::pc),
               field<Told::or_none>("symbol",
                                    [](const cudacore::Frame& frame) {
                                      return frame.code ? std::string_view(frame.code->symbol)
                                                        : std::string_view();
                                    }),
               field("offset",
                     [](const cudacore::Frame& frame) {
                       return frame.code ? std::optional(frame.code->offset) : std::nullopt;
                     }),
               field<Told::values>("places", [](const cudacore::Frame& frame) {
                 return frame.code ? frame.code->places : std::vector<cudacore::Place>();
               }));

template <>
inline constexpr auto kFields<cudacore::Where> =
    std::tuple(field("device", &cudacore::Where::device),
               field("multiprocessor", &cudacore::Where::sm), field("warp", &cudacore::Where::warp),
               field("lane", &cudacore::Where::lane), field("grid", &cudacore::Where::grid),
               field("block", &cudacore::Where::block), field("thread", &cudacore::Where::thread));

template <>
inline constexpr auto kFields<cudacore::Fault> = std::tuple(
    field("source", &cudacore::Fault::source), field("code", &cudacore::Fault::code),
    field("pc",
          [](const cudacore::Fault& fault) {
            return fault.has_pc ? std::optional(fault.pc) : std::nullopt;
          }),
    field("first", &cudacore::Fault::first), field("has_thread", &cudacore::Fault::has_thread),
    field("threads", &cudacore::Fault::lanes), field("warps", &cudacore::Fault::warps),
    field("blocks", &cudacore::Fault::blocks),
    field<Told::or_none>("detail", &cudacore::Fault::detail),
    field("target_block", &cudacore::Fault::target_block),
    field("frames", &cudacore::Fault::frames));

template <>
inline constexpr auto kFields<cudacore::Stand> = std::tuple(
    field("device", &cudacore::Stand::device), field("grid", &cudacore::Stand::grid),
    field("threads", &cudacore::Stand::lanes), field("active", &cudacore::Stand::active),
    field("warps", &cudacore::Stand::warps), field("blocks", &cudacore::Stand::blocks),
    field("failed", &cudacore::Stand::failed), field("in_system", &cudacore::Stand::in_system),
    field("some", &cudacore::Stand::some), field("frames", &cudacore::Stand::frames));

template <>
inline constexpr auto kFields<cudacore::Grid> = std::tuple(
    field("device", &cudacore::Grid::device), field("id", &cudacore::Grid::id),
    field("context", &cudacore::Grid::context), field("module", &cudacore::Grid::module),
    field("entry", &cudacore::Grid::entry), field("type", &cudacore::Grid::type),
    field("origin", &cudacore::Grid::origin), field("status", &cudacore::Grid::status),
    field("registers", &cudacore::Grid::registers), field("host_tid", &cudacore::Grid::host_tid),
    field("blocking", &cudacore::Grid::blocking), field("grid_size", &cudacore::Grid::grid_size),
    field("block_size", &cudacore::Grid::block_size),
    field("cluster_size", &cudacore::Grid::cluster_size), field("blocks", &cudacore::Grid::blocks),
    field("warps", &cudacore::Grid::warps),
    field<Told::or_none>("kernel", &cudacore::Grid::kernel));

template <>
inline constexpr auto kFields<cudacore::Memory> =
    std::tuple(field("address", &cudacore::Memory::address), field("size", &cudacore::Memory::size),
               field("first", &cudacore::Memory::first));

template <>
inline constexpr auto kFields<cudacore::Focus> =
    std::tuple(field("registers", &cudacore::Focus::registers),
               field("predicates", &cudacore::Focus::predicates),
               field("uniform", &cudacore::Focus::uniform_registers),
               field("uniform_predicates", &cudacore::Focus::uniform_predicates),
               field("valid_lanes", &cudacore::Focus::valid_lanes),
               field("active_lanes", &cudacore::Focus::active_lanes),
               field<Told::values>("local", &cudacore::Focus::local),
               field<Told::values>("shared", &cudacore::Focus::shared));

template <>
inline constexpr auto kFields<cudacore::Device> = std::tuple(
    field<Told::or_none>("name", &cudacore::Device::name),
    field<Told::or_none>("chip", &cudacore::Device::chip),
    field<Told::or_none>("sm_type", &cudacore::Device::sm_type), field("id", &cudacore::Device::id),
    field("pci_bus", &cudacore::Device::pci_bus),
    field("pci_device", &cudacore::Device::pci_device), field("sms", &cudacore::Device::sms),
    field("warps_per_sm", &cudacore::Device::warps_per_sm),
    field("sm_major", &cudacore::Device::sm_major), field("sm_minor", &cudacore::Device::sm_minor),
    field("status", &cudacore::Device::status));

template <>
inline constexpr auto kFields<cudacore::Metadata> = std::tuple(
    field<Told::or_none>("generator", &cudacore::Metadata::generator),
    field("driver_major", &cudacore::Metadata::driver_major),
    field("driver_minor", &cudacore::Metadata::driver_minor),
    field("cuda_major", &cudacore::Metadata::cuda_major),
    field("cuda_minor", &cudacore::Metadata::cuda_minor),
    field("flags", &cudacore::Metadata::flags), field("timestamp", &cudacore::Metadata::timestamp));

template <>
inline constexpr auto kFields<cudacore::Context> =
    std::tuple(field("device", &cudacore::Context::device), field("id", &cudacore::Context::id),
               field("tid", &cudacore::Context::tid));

template <>
inline constexpr auto kFields<cudacore::Module> = std::tuple(
    field("context", &cudacore::Module::context), field("handle", &cudacore::Module::handle),
    field("bytes", &cudacore::Module::bytes), field("functions", &cudacore::Module::functions),
    field("has_lines", &cudacore::Module::has_lines));

template <>
inline constexpr auto kFields<cudacore::Core> = std::tuple(
    field("size_bytes", &cudacore::Core::size_bytes),
    field("expected_bytes", &cudacore::Core::expected_bytes),
    field("metadata", &cudacore::Core::metadata), field("devices", &cudacore::Core::devices),
    field<Told::values>("contexts", &cudacore::Core::contexts),
    field("modules", &cudacore::Core::modules), field("grids", &cudacore::Core::grids),
    field("faults", &cudacore::Core::faults), field("stands", &cudacore::Core::stands),
    field("stands_left_out", &cudacore::Core::stands_left_out),
    field("grids_left_out", &cudacore::Core::grids_left_out),
    field("blocks", &cudacore::Core::blocks), field("warps", &cudacore::Core::warps),
    field("lanes", &cudacore::Core::lanes), field("global_bytes", &cudacore::Core::global_bytes),
    field("managed_bytes", &cudacore::Core::managed_bytes),
    field("shared_bytes", &cudacore::Core::shared_bytes),
    field("local_bytes", &cudacore::Core::local_bytes), field("focus", &cudacore::Core::focus),
    field("problems", [](const cudacore::Core& core) -> auto& { return core.problems.rows(); }));

template <>
inline constexpr auto kFields<cudacore::AmdAgent> = std::tuple(
    field("exceptions", &cudacore::AmdAgent::exceptions), field("id", &cudacore::AmdAgent::id),
    field("location", &cudacore::AmdAgent::location), field("vendor", &cudacore::AmdAgent::vendor),
    field("device", &cudacore::AmdAgent::device), field("target", &cudacore::AmdAgent::target),
    field("simds", &cudacore::AmdAgent::simds),
    field("waves_per_simd", &cudacore::AmdAgent::waves_per_simd));

template <>
inline constexpr auto kFields<cudacore::AmdQueue> = std::tuple(
    field("exceptions", &cudacore::AmdQueue::exceptions), field("id", &cudacore::AmdQueue::id),
    field("agent", &cudacore::AmdQueue::agent), field("type", &cudacore::AmdQueue::type),
    field("saved_bytes", &cudacore::AmdQueue::save_area_bytes));

template <>
inline constexpr auto kFields<cudacore::AmdCore> = std::tuple(
    field("size_bytes", &cudacore::AmdCore::size_bytes),
    field("expected_bytes", &cudacore::AmdCore::expected_bytes),
    field("driver",
          [](const cudacore::AmdCore& core) {
            return std::pair(core.driver_major, core.driver_minor);
          }),
    field("agents", &cudacore::AmdCore::agents), field("queues", &cudacore::AmdCore::queues),
    field("code_objects", &cudacore::AmdCore::code_objects),
    field("memory_bytes", &cudacore::AmdCore::memory_bytes),
    field("problems", [](const cudacore::AmdCore& core) -> auto& { return core.problems.rows(); }));

}  // namespace pm
