// read_cuda_core(), read_amd_core(): core dumps of GPUs.
#include "cudacore/core.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "bind/register.h"
#include "bind/values.h"
#include "cudacore/amd.h"

namespace py = pybind11;

namespace pm::bind {
namespace {

using namespace pm::cudacore;

py::tuple three(const Three& value) { return py::make_tuple(value[0], value[1], value[2]); }

py::list frame_rows(const std::vector<cudacore::Frame>& frames) {
  py::list rows;
  for (const cudacore::Frame& frame : frames) {
    py::dict row;
    row["pc"] = frame.pc;
    row["symbol"] = frame.code ? text_or_none(frame.code->symbol) : py::none();
    row["offset"] = frame.code ? py::object(py::int_(frame.code->offset)) : py::none();
    py::list places;
    if (frame.code) {
      for (const Place& place : frame.code->places) {
        places.append(py::make_tuple(text_or_none(place.function), text_or_none(place.file),
                                     place.line, place.inlined));
      }
    }
    row["places"] = places;
    rows.append(row);
  }
  return rows;
}

py::dict where_row(const Where& where) {
  py::dict row;
  row["device"] = where.device;
  row["sm"] = where.sm;
  row["warp"] = where.warp;
  row["lane"] = where.lane;
  row["grid"] = where.grid;
  row["block"] = three(where.block);
  row["thread"] = three(where.thread);
  return row;
}

py::dict fault_row(const Fault& fault) {
  constexpr std::array<const char*, 4> kSources = {"lane", "warp", "sm", "trap"};
  py::dict row;
  row["source"] = kSources[static_cast<std::size_t>(fault.source)];
  row["code"] = fault.code;
  row["pc"] = fault.has_pc ? py::object(py::int_(fault.pc)) : py::none();
  row["first"] = where_row(fault.first);
  row["has_thread"] = fault.has_thread;
  row["lanes"] = fault.lanes;
  row["warps"] = fault.warps;
  row["blocks"] = fault.blocks;
  row["detail"] = text_or_none(fault.detail);
  row["target_block"] = fault.target_block ? py::object(three(*fault.target_block)) : py::none();
  row["frames"] = frame_rows(fault.frames);
  return row;
}

py::dict stand_row(const Stand& stand) {
  py::dict row;
  row["device"] = stand.device;
  row["grid"] = stand.grid;
  row["lanes"] = stand.lanes;
  row["active"] = stand.active;
  row["warps"] = stand.warps;
  row["blocks"] = stand.blocks;
  row["failed"] = stand.failed;
  row["in_system"] = stand.in_system;
  py::list some;
  for (const Where& where : stand.some) some.append(where_row(where));
  row["some"] = some;
  row["frames"] = frame_rows(stand.frames);
  return row;
}

py::dict grid_row(const Grid& grid) {
  py::dict row;
  row["device"] = grid.device;
  row["id"] = grid.id;
  row["context"] = grid.context;
  row["module"] = grid.module;
  row["entry"] = grid.entry;
  row["type"] = grid.type;
  row["origin"] = grid.origin;
  row["status"] = grid.status;
  row["registers"] = grid.registers;
  row["host_tid"] = grid.host_tid;
  row["blocking"] = grid.blocking;
  row["grid_size"] = three(grid.grid_size);
  row["block_size"] = three(grid.block_size);
  row["cluster_size"] = three(grid.cluster_size);
  row["blocks"] = grid.blocks;
  row["warps"] = grid.warps;
  row["kernel"] = text_or_none(grid.kernel);
  return row;
}

py::object memory_row(const std::optional<cudacore::Memory>& memory) {
  if (!memory) return py::none();
  return py::make_tuple(memory->address, memory->size, raw(memory->first));
}

py::object focus_row(const std::optional<Focus>& focus) {
  if (!focus) return py::none();
  py::dict row;
  row["registers"] = focus->registers;
  row["predicates"] = focus->predicates;
  row["uniform_registers"] = focus->uniform_registers;
  row["uniform_predicates"] = focus->uniform_predicates;
  row["valid_lanes"] = focus->valid_lanes;
  row["active_lanes"] = focus->active_lanes;
  row["local"] = memory_row(focus->local);
  row["shared"] = memory_row(focus->shared);
  return row;
}

py::dict device_row(const Device& device) {
  py::dict row;
  row["name"] = text_or_none(device.name);
  row["chip"] = text_or_none(device.chip);
  row["sm_type"] = text_or_none(device.sm_type);
  row["id"] = device.id;
  row["pci_bus"] = device.pci_bus;
  row["pci_device"] = device.pci_device;
  row["sms"] = device.sms;
  row["warps_per_sm"] = device.warps_per_sm;
  row["sm_major"] = device.sm_major;
  row["sm_minor"] = device.sm_minor;
  row["status"] = device.status;
  return row;
}

py::dict read_cuda_core(const std::string& path, std::uint64_t memory_bytes) {
  Core core;
  std::string error;
  {
    const py::gil_scoped_release release;
    const auto file = MappedFile::open(path, error, MappedFile::Reading::from_start_to_end);
    if (!file) throw EvidenceError(error);
    const SigbusGuard guard;
    core = read_core(file->bytes(), memory_bytes);
    if (guard.lost_pages() > 0) {
      core.problems.add("file", "some of its pages could not be read and count as zeros",
                        "copy the dump to a local disk");
    }
  }
  const auto rows = [](const auto& values, auto row) {
    py::list list;
    for (const auto& value : values) list.append(row(value));
    return list;
  };
  py::dict result;
  result["size_bytes"] = core.size_bytes;
  result["expected_bytes"] = core.expected_bytes;
  result["metadata"] =
      core.metadata
          ? py::object(py::make_tuple(text_or_none(core.metadata->generator),
                                      core.metadata->driver_major, core.metadata->driver_minor,
                                      core.metadata->cuda_major, core.metadata->cuda_minor,
                                      core.metadata->flags, core.metadata->timestamp))
          : py::none();
  result["devices"] = rows(core.devices, device_row);
  result["contexts"] = rows(core.contexts, [](const Context& row) {
    return py::make_tuple(row.device, row.id, row.tid);
  });
  result["modules"] = rows(core.modules, [](const cudacore::Module& row) {
    return py::make_tuple(row.context, row.handle, row.bytes, row.functions, row.has_lines);
  });
  result["grids"] = rows(core.grids, grid_row);
  result["faults"] = rows(core.faults, fault_row);
  result["stands"] = rows(core.stands, stand_row);
  result["stands_left_out"] = core.stands_left_out;
  result["grids_left_out"] = core.grids_left_out;
  result["blocks"] = core.blocks;
  result["warps"] = core.warps;
  result["lanes"] = core.lanes;
  result["global_bytes"] = core.global_bytes;
  result["managed_bytes"] = core.managed_bytes;
  result["shared_bytes"] = core.shared_bytes;
  result["local_bytes"] = core.local_bytes;
  result["focus"] = focus_row(core.focus);
  result["problems"] = problems(core.problems);
  return result;
}

py::dict read_amd_core(const std::string& path) {
  AmdCore core;
  std::string error;
  {
    const py::gil_scoped_release release;
    const auto file = MappedFile::open(path, error);
    if (!file) throw EvidenceError(error);
    const SigbusGuard guard;
    core = cudacore::read_amd_core(file->bytes());
  }
  py::dict result;
  py::list agents, queues;
  for (const AmdAgent& row : core.agents) {
    agents.append(py::make_tuple(row.exceptions, row.id, row.location, row.vendor, row.device,
                                 row.target, row.simds, row.waves_per_simd));
  }
  for (const AmdQueue& row : core.queues) {
    queues.append(py::make_tuple(row.exceptions, row.id, row.agent, row.type, row.save_area_bytes));
  }
  result["size_bytes"] = core.size_bytes;
  result["expected_bytes"] = core.expected_bytes;
  result["driver"] = py::make_tuple(core.driver_major, core.driver_minor);
  result["agents"] = agents;
  result["queues"] = queues;
  result["code_objects"] = py::cast(core.code_objects);
  result["memory_bytes"] = core.memory_bytes;
  result["problems"] = problems(core.problems);
  return result;
}

}  // namespace

void register_cudacore(py::module_& module) {
  using py::literals::operator""_a;
  module.def("read_cuda_core", &read_cuda_core, "path"_a, py::kw_only(), "memory_bytes"_a = 0,
             "Reads a core dump of CUDA GPUs; memory_bytes: of the shared and local memory of the "
             "thread that failed.");
  module.def("read_amd_core", &read_amd_core, "path"_a, "Reads the state of AMD's GPUs in a core.");
}

}  // namespace pm::bind
