// Where the fields of CPython's structures lie, by version.
#pragma once

#include <cstdint>
#include <string>

namespace pm::cpython {

// PY_VERSION_HEX: major, minor, micro, release level, serial.
struct Version {
  std::uint32_t hex = 0;

  constexpr unsigned major() const noexcept { return hex >> 24; }
  constexpr unsigned minor() const noexcept { return (hex >> 16) & 0xff; }
  constexpr unsigned micro() const noexcept { return (hex >> 8) & 0xff; }
  // 0xa alpha, 0xb beta, 0xc release candidate, 0xf final (Include/patchlevel.h).
  constexpr unsigned level() const noexcept { return (hex >> 4) & 0xf; }
  constexpr unsigned serial() const noexcept { return hex & 0xf; }
};

// "3.11.7", "3.14.0rc1".
std::string version_text(Version version);

// Offsets in bytes; -1: the structure has no such field in that version. The generated tables
// (offsets/tables.cpp) fill it from DWARF; offsets/generate.py says which field of which
// structure each one is.
struct Layout {
  // PyObject: where its type is, and where the fields of an object begin (ob_size of a sized one).
  // Free-threaded builds have 16 bytes more.
  std::int32_t object_type = 8, object_head = 16;
  // MANAGED_DICT_OFFSET since 3.13: in front of the object, as no garbage collector's head is in a
  // free-threaded build.
  std::int32_t object_dict = -24;
  std::int32_t runtime_interpreters = -1, runtime_gil = -1;
  std::int32_t interp_next = -1, interp_threads = -1, interp_modules = -1, interp_sysdict = -1,
               interp_gil = -1;
  // Only a free-threaded build has a GIL that may be switched off.
  std::int32_t gil_holder = -1, gil_locked = -1, gil_enabled = -1;
  std::int32_t thread_next = -1, thread_interp = -1, thread_frame = -1, thread_cframe = -1,
               thread_current_frame = -1, thread_ident = -1, thread_native_id = -1,
               thread_exc_info = -1, thread_raised = -1, thread_raised_type = -1,
               thread_raised_traceback = -1;
  std::int32_t cframe_current_frame = -1;
  std::int32_t handled_value = -1, handled_previous = -1;
  std::int32_t frame_back = -1, frame_code = -1, frame_lasti = -1, frame_locals = -1,
               frame_iframe = -1;
  std::int32_t iframe_code = -1, iframe_previous = -1, iframe_instr = -1, iframe_locals = -1,
               iframe_owner = -1, iframe_is_entry = -1, iframe_tlbc = -1, iframe_stack = -1;
  std::int32_t code_file = -1, code_name = -1, code_qualname = -1, code_first_line = -1,
               code_lines = -1, code_instructions = -1, code_names = -1, code_kinds = -1,
               code_cells = -1, code_free = -1, code_first_traceable = -1, code_slots = -1,
               code_exception_table = -1, code_tlbc = -1;
  std::int32_t frame_block_count = -1, frame_blocks = -1, frame_value_stack = -1;
  std::int32_t exception_args = -1, exception_traceback = -1, exception_context = -1,
               exception_cause = -1, exception_suppress = -1, os_errno = -1, os_strerror = -1,
               os_filename = -1, os_filename2 = -1;
  std::int32_t traceback_next = -1, traceback_frame = -1, traceback_lasti = -1, traceback_line = -1;
  std::int32_t type_name = -1, type_basic_size = -1, type_flags = -1, type_base = -1,
               type_dict = -1, type_dict_offset = -1, type_qualname = -1, type_cached_keys = -1;
  std::int32_t text_length = -1, text_state = -1, text_ascii = -1, text_compact = -1,
               text_data = -1;
  std::int32_t bytes_data = -1, tuple_items = -1, list_items = -1, float_value = -1, int_size = -1,
               int_digits = -1, set_used = -1, cell_value = -1;
  std::int32_t dict_used = -1, dict_keys = -1, dict_values = -1, keys_log2_size = -1,
               keys_size = -1, keys_log2_bytes = -1, keys_kind = -1, keys_entries = -1,
               keys_indices = -1, values_items = -1, values_valid = -1;
};

// How much longer the head of an object is than in builds with a GIL.
inline std::int32_t head_growth(const Layout& layout) noexcept { return layout.object_head - 16; }

struct Table {
  Version version;
  Layout layout;
};

// The table of the same minor version that is nearest to the version; null: no such table.
const Table* nearest_table(Version version) noexcept;

}  // namespace pm::cpython
