// Records of a flight file, packed into its mapped ring; docs/flight-file.md has the layout.
#include "bind/flight_records.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>

#include "bind/scan_result.h"

namespace pm::bind {
namespace {

#pragma pack(push, 1)
struct Record {
  std::uint64_t number;
  double time;
  std::uint32_t batch;
  std::uint32_t frame;
  std::uint32_t module;
  std::uint32_t cell;
  std::uint8_t kind;
  std::uint8_t dtype;
  std::uint16_t flags;
  std::uint32_t saturated;
  std::uint64_t elements, nans, infinities, zeros, subnormals;
  std::int64_t first_nonfinite;
  double abs_min, abs_max, abs_min_nonzero, abs_max_finite;
  std::uint32_t check;
};
#pragma pack(pop)
static_assert(sizeof(Record) == 124);
constexpr std::size_t kRecordBytes = 128;
constexpr std::uint16_t kNoNumbers = 2;

// CRC-32 as zlib has it (polynomial 0xEDB88320), eight bytes at a time.
constexpr auto kTables = [] {
  std::array<std::array<std::uint32_t, 256>, 8> tables{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ ((value & 1) != 0 ? 0xEDB88320U : 0);
    tables[0][i] = value;
  }
  for (std::size_t i = 0; i < 256; ++i) {
    for (std::size_t t = 1; t < 8; ++t) {
      const std::uint32_t before = tables[t - 1][i];
      tables[t][i] = before >> 8 ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}();

std::uint32_t crc32(const void* data, std::size_t size) {
  const auto* at = static_cast<const unsigned char*>(data);
  std::uint32_t sum = ~0U;
  for (; size >= 8; size -= 8, at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, 8);
    word ^= sum;
    sum = 0;
    for (std::size_t i = 0; i < 8; ++i) sum ^= kTables[7 - i][word >> (8 * i) & 0xFF];
  }
  for (; size != 0; --size, ++at) sum = sum >> 8 ^ kTables[0][(sum ^ *at) & 0xFF];
  return ~sum;
}

std::uint8_t dtype_code(PyObject* codes, PyObject* dtype) {
  PyObject* const code = PyDict_GetItemWithError(codes, dtype);
  return code == nullptr ? std::uint8_t{0} : static_cast<std::uint8_t>(PyLong_AsLong(code));
}

// The number of a name, borrowed; of a note (a str in the numbers' place) that of both together.
PyObject* label_of(PyObject* names, PyObject* name, PyObject* numbers) {
  if (!PyUnicode_CheckExact(numbers)) return PyDict_GetItemWithError(names, name);
  PyObject* const both = PyUnicode_FromFormat("%U\x1f%U", name, numbers);
  if (both == nullptr) return nullptr;
  PyObject* const label = PyDict_GetItemWithError(names, both);
  Py_DECREF(both);
  return label;
}

}  // namespace

// front is (time, batch, frame, module, kind, flags, codes): codes are a dict of data types.
// `pairs` holds names and numbers in turns. Returns how many records there are now, or None if a
// name is not among `names`.
PyObject* write_records(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 9 || !PyTuple_Check(args[4]) || !PyDict_Check(args[5]) || !PyList_Check(args[6])) {
    PyErr_SetString(PyExc_TypeError, "write_records() takes 9 arguments");
    return nullptr;
  }
  const unsigned long long first = PyLong_AsUnsignedLongLong(args[1]);
  const unsigned long long capacity = PyLong_AsUnsignedLongLong(args[2]);
  unsigned long long written = PyLong_AsUnsignedLongLong(args[3]);
  const Py_ssize_t begin = PyLong_AsSsize_t(args[7]);
  const Py_ssize_t end = PyLong_AsSsize_t(args[8]);
  Record record{};
  unsigned int batch = 0, frame = 0, module = 0;
  unsigned char kind = 0;
  unsigned short flags = 0;
  PyObject* codes = nullptr;
  if (PyErr_Occurred() || !PyArg_ParseTuple(args[4], "dIIIbHO!", &record.time, &batch, &frame,
                                            &module, &kind, &flags, &PyDict_Type, &codes)) {
    return nullptr;
  }
  Py_buffer ring;
  if (PyObject_GetBuffer(args[0], &ring, PyBUF_WRITABLE) != 0) return nullptr;
  const auto size = static_cast<unsigned long long>(ring.len);
  bool fits = capacity != 0 && first <= size && capacity <= (size - first) / kRecordBytes;
  fits = fits && begin >= 0 && begin <= end && end <= PyList_GET_SIZE(args[6]) && begin % 2 == 0;
  bool named = true;
  for (Py_ssize_t i = begin; fits && named && i + 1 < end; i += 2) {
    PyObject* const numbers = PyList_GET_ITEM(args[6], i + 1);
    PyObject* const label = label_of(args[5], PyList_GET_ITEM(args[6], i), numbers);
    named = label != nullptr;
    if (!named) break;
    const scan::Result* const found = values_in(numbers);
    record.number = written + 1;
    record.batch = batch;
    record.frame = frame;
    record.module = module;
    record.cell = static_cast<std::uint32_t>(PyLong_AsUnsignedLong(label));
    record.kind = kind;
    record.flags = found == nullptr ? flags | kNoNumbers : flags;
    const scan::Result none{.first_nonfinite = -1};
    const scan::Result& r = found == nullptr ? none : *found;
    record.dtype = found == nullptr ? std::uint8_t{0} : dtype_code(codes, dtype_in(numbers));
    record.elements = r.elements;
    record.nans = r.nans;
    record.infinities = r.infinities;
    record.zeros = r.zeros;
    record.subnormals = r.subnormals;
    record.first_nonfinite = r.first_nonfinite;
    record.abs_min = r.abs_min;
    record.abs_max = r.abs_max;
    record.abs_min_nonzero = r.abs_min_nonzero;
    record.abs_max_finite = r.abs_max_finite;
    record.check = crc32(&record, sizeof record - sizeof record.check);
    char* const place = static_cast<char*>(ring.buf) + first + written % capacity * kRecordBytes;
    std::memcpy(place, &record, sizeof record);
    ++written;
  }
  PyBuffer_Release(&ring);
  if (PyErr_Occurred()) return nullptr;
  if (!fits) {
    PyErr_SetString(PyExc_ValueError, "records do not fit in the ring");
    return nullptr;
  }
  if (!named) Py_RETURN_NONE;
  return PyLong_FromUnsignedLongLong(written);
}

}  // namespace pm::bind
