// What is kept for each device, and the launches.
#include <cuda_runtime.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <thread>

#include "cuda/kernels.h"
#include "cuda/scan.h"

#if !defined(POSTMORTEM_CUDA_ARCHITECTURES)
#define POSTMORTEM_CUDA_ARCHITECTURES "unknown"
#endif

namespace pm::cuda {
namespace {

constexpr u32 kRing = 16384;
constexpr u32 kCaptured = 16384;
constexpr int kMostDevices = 64;

thread_local char error_text[256];

const char* said(const char* what, cudaError_t error) {
  std::snprintf(error_text, sizeof error_text, "%s: %s (%s)", what, cudaGetErrorString(error),
                cudaGetErrorName(error));
  return error_text;
}

// Set in the child of a fork: what the parent's driver mapped is not there, not even to be read.
bool is_child = false;
constexpr const char* kForked =
    "CUDA was in use before fork(): this process cannot use it (start workers with spawn)";

// What is allowed only outside of a capture is allowed for this thread while it lives: our own
// memory and our own stream have nothing to do with what is being captured.
class Relaxed {
 public:
  Relaxed() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~Relaxed() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  Relaxed(const Relaxed&) = delete;
  Relaxed& operator=(const Relaxed&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

// Makes a device the current one, and the one before again.
class Current {
 public:
  explicit Current(int device) {
    error_ = cudaGetDevice(&before_);
    if (error_ == cudaSuccess && before_ != device) {
      error_ = cudaSetDevice(device);
      changed_ = error_ == cudaSuccess;
    }
  }
  ~Current() {
    if (changed_) cudaSetDevice(before_);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  cudaError_t error() const { return error_; }

 private:
  int before_ = 0;
  bool changed_ = false;
  cudaError_t error_ = cudaSuccess;
};

struct Device {
  Accumulator* accumulators = nullptr;
  Record* records = nullptr;   // as the device sees them
  cudaStream_t own = nullptr;  // for nothing but our own memory
  u32 blocks = 0;              // that run at once
  std::unique_ptr<Slots> slots;
};

struct Place {
  std::mutex mutex;
  std::atomic<Device*> device = nullptr;  // never freed: results may outlive the interpreter
  char failed[256] = "";                  // why it could not be made, for good
};
std::array<Place, kMostDevices> places;

// Fills a device's state; the device is current.
const char* make(int number, Device& device) {
  const Relaxed relaxed;
  for (const void* kernel : {kernel_of_table(), kernel_of_shaped()}) {
    cudaFuncAttributes attributes;  // also loads the code, which a capture might not like
    if (const auto error = cudaFuncGetAttributes(&attributes, kernel); error != cudaSuccess) {
      return said("no code for this device", error);
    }
  }
  int processors = 0, each = 0;
  if (const auto error =
          cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, number);
      error != cudaSuccess) {
    return said("cannot ask the device", error);
  }
  if (const auto error =
          cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel_of_table(), kThreads, 0);
      error != cudaSuccess) {
    return said("cannot ask the device", error);
  }
  device.blocks = static_cast<u32>(processors * std::max(each, 1));
  constexpr std::size_t kSlots = kRing + kCaptured;
  Record* records = nullptr;
  if (const auto error = cudaHostAlloc(reinterpret_cast<void**>(&records), kSlots * sizeof(Record),
                                       cudaHostAllocMapped | cudaHostAllocPortable);
      error != cudaSuccess) {
    return said("no pinned memory", error);
  }
  std::fill_n(reinterpret_cast<unsigned char*>(records), kSlots * sizeof(Record),
              static_cast<unsigned char>(0));
  const Accumulator empty{0, ~u64{0}, 0, 0, 0, 0, ~u64{0}, 0, 0};
  const std::vector<Accumulator> all(kSlots, empty);
  const char* what = nullptr;
  auto error = cudaHostGetDevicePointer(reinterpret_cast<void**>(&device.records), records, 0);
  if (error != cudaSuccess) what = "pinned memory is not mapped";
  if (what == nullptr) {
    error = cudaStreamCreateWithFlags(&device.own, cudaStreamNonBlocking);
    if (error != cudaSuccess) what = "no stream";
  }
  if (what == nullptr) {
    error =
        cudaMalloc(reinterpret_cast<void**>(&device.accumulators), kSlots * sizeof(Accumulator));
    if (error != cudaSuccess) what = "no device memory";
  }
  if (what == nullptr) {
    error = cudaMemcpyAsync(device.accumulators, all.data(), kSlots * sizeof(Accumulator),
                            cudaMemcpyHostToDevice, device.own);
    if (error == cudaSuccess) error = cudaStreamSynchronize(device.own);
    if (error != cudaSuccess) what = "cannot write device memory";
  }
  if (what != nullptr) {
    const char* const text = said(what, error);
    if (device.accumulators != nullptr) cudaFree(device.accumulators);
    if (device.own != nullptr) cudaStreamDestroy(device.own);
    cudaFreeHost(records);
    return text;
  }
  device.slots = std::make_unique<Slots>(records, kRing, kCaptured);
  return nullptr;
}

// The state of a device, made now if need be; null, and why.
Device* device_at(int number, const char*& why) {
  if (is_child) {
    why = kForked;
    return nullptr;
  }
  if (number < 0 || number >= kMostDevices) {
    why = "no such device";
    return nullptr;
  }
  Place& place = places[static_cast<std::size_t>(number)];
  if (Device* const there = place.device.load(std::memory_order_acquire)) return there;
  const std::lock_guard lock(place.mutex);
  if (Device* const there = place.device.load(std::memory_order_relaxed)) return there;
  if (place.failed[0] != 0) {
    why = place.failed;
    return nullptr;
  }
  static const int registered = pthread_atfork(nullptr, nullptr, [] { is_child = true; });
  static_cast<void>(registered);
  const Current current(number);
  auto made = std::make_unique<Device>();
  why = current.error() == cudaSuccess ? make(number, *made) : said("no device", current.error());
  if (why != nullptr) {
    cudaGetLastError();
    std::snprintf(place.failed, sizeof place.failed, "%s", why);
    why = place.failed;
    return nullptr;
  }
  place.device.store(made.release(), std::memory_order_release);
  return place.device.load(std::memory_order_relaxed);
}

// Tells when no graph with a slot is left.
struct Held {
  Slots* slots;
  u32 slot;
};
void CUDART_CB gone(void* context) {
  const std::unique_ptr<Held> held(static_cast<Held*>(context));
  held->slots->graph_gone(held->slot);
}

cudaError_t graph_of(cudaStream_t stream, cudaGraph_t& graph) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
#if CUDART_VERSION >= 13000
  return cudaStreamGetCaptureInfo(stream, &status, nullptr, &graph, nullptr, nullptr, nullptr);
#else
  return cudaStreamGetCaptureInfo_v2(stream, &status, nullptr, &graph, nullptr, nullptr);
#endif
}

// Has the graph that is being captured keep the slots until it is gone. Those up to `kept` are the
// graph's afterwards, whatever the outcome.
cudaError_t keep_in_graph(cudaStream_t stream, Slots& slots, Pending* const* pending,
                          std::size_t count, std::size_t& kept) {
  cudaGraph_t graph = nullptr;
  if (const auto error = graph_of(stream, graph); error != cudaSuccess) return error;
  for (kept = 0; kept < count; ++kept) {
    auto held = std::make_unique<Held>(&slots, pending[kept]->slot);
    cudaUserObject_t object = nullptr;
    if (const auto error =
            cudaUserObjectCreate(&object, held.get(), gone, 1, cudaUserObjectNoDestructorSync);
        error != cudaSuccess) {
      return error;
    }
    held.release();
    if (const auto error = cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove);
        error != cudaSuccess) {
      cudaUserObjectRelease(object, 1);
      ++kept;
      return error;
    }
  }
  return cudaSuccess;
}

u32 blocks_for(const Device& device, u64 wanted) {
  if (wanted <= device.blocks) return static_cast<u32>(std::max<u64>(wanted, 1));
  const u64 each = (wanted + device.blocks - 1) / device.blocks;
  return static_cast<u32>((wanted + each - 1) / each);  // as many for each as for the others
}

// One launch's worth of plans from `next` on.
cudaError_t launch(const Device& device, cudaStream_t stream, const Plan* plans,
                   Pending* const* pending, std::size_t count, double* row, bool captured,
                   std::size_t& next) {
  Launch head{};
  head.accumulators = device.accumulators;
  head.records = device.records;
  head.row = row;
  head.replays = captured;
  const Plan& first = plans[next];
  const scan::Shape shape = scan::shape_of(format_of(first.entry));
  head.elements = first.elements;
  head.repeats = first.repeats;
  head.complex = first.complex;
  head.fraction = static_cast<signed char>(shape.fraction);
  head.bias = shape.bias;
  if (first.pieces == 0) {
    Shaped work{head, first.entry, first.shape};
    work.launch.entries = 1;
    work.entry.slot = pending[next++]->slot;
    void* arguments[] = {&work};
    const u64 rounds = (first.values + kThreads * kLoads - 1) / (kThreads * kLoads);
    return cudaLaunchKernel(kernel_of_shaped(), dim3(blocks_for(device, rounds)), dim3(kThreads),
                            arguments, 0, stream);
  }
  Table work;
  work.launch = head;
  u64 pieces = 0;
  u32 entries = 0;
  for (; next < count && entries < kMostEntries && plans[next].pieces != 0; ++next, ++entries) {
    if (pieces + plans[next].pieces > 0x7fffffff && entries != 0) break;
    work.entries[entries] = plans[next].entry;
    work.entries[entries].slot = pending[next]->slot;
    work.entries[entries].first_piece = static_cast<u32>(pieces);
    pieces += plans[next].pieces;
  }
  work.launch.entries = entries;
  work.launch.pieces = static_cast<u32>(pieces);
  void* arguments[] = {&work};
  return cudaLaunchKernel(kernel_of_table(), dim3(blocks_for(device, pieces)), dim3(kThreads),
                          arguments, 0, stream);
}

const char* health_of(Device& device, int number) {
  const Relaxed relaxed;
  const Current current(number);
  cudaError_t error = current.error();
  if (error == cudaSuccess) error = cudaStreamQuery(device.own);
  if (error == cudaSuccess || error == cudaErrorNotReady) return nullptr;
  cudaGetLastError();
  return said("the device gave up", error);
}

// A slot for each; waits for the oldest record where all are in flight.
const char* claim_all(Device& device, int number, std::size_t count, Pending* const* pending,
                      bool captured) {
  for (std::size_t i = 0; i < count; ++i) {
    for (int tries = 0; !device.slots->claim(*pending[i], captured); ++tries) {
      const char* why = captured ? "too many scans in CUDA graphs: 16384 on one device" : nullptr;
      // Of this call's own none has been launched yet: to wait for them would be for ever.
      if (why == nullptr && i >= kRing) why = "too many tensors in one call: 16384 at once";
      if (why == nullptr && tries % 64 == 63) why = health_of(device, number);
      if (why != nullptr) {
        while (i-- > 0) device.slots->give_up(*pending[i]);
        return why;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
  return nullptr;
}

}  // namespace
}  // namespace pm::cuda

using namespace pm::cuda;

extern "C" {

void pm_cuda_probe(PmCudaProbe* probe) {
  *probe = {};
  cudaRuntimeGetVersion(&probe->runtime);
  cudaDriverGetVersion(&probe->driver);
  const cudaError_t error = cudaGetDeviceCount(&probe->devices);
  cudaGetLastError();
  probe->use = kPmCudaUsable;
  if (probe->driver == 0) {
    probe->use = kPmCudaNoDriver;
  } else if (error == cudaErrorInsufficientDriver || error == cudaErrorCallRequiresNewerDriver) {
    probe->use = kPmCudaOldDriver;
  } else if (error == cudaErrorNoDevice || (error == cudaSuccess && probe->devices == 0)) {
    probe->use = kPmCudaNoDevice;
  } else if (error != cudaSuccess) {
    probe->use = kPmCudaBroken;
  }
  std::snprintf(probe->text, sizeof probe->text, "%s", cudaGetErrorString(error));
}

const char* pm_cuda_prepare(std::int32_t device) {
  const char* why = nullptr;
  device_at(device, why);
  return why;
}

const char* pm_cuda_scan(std::int32_t number, void* stream_handle, const Plan* plans,
                         std::size_t count, double* row, Pending* const* pending) {
  const char* why = nullptr;
  Device* const device = device_at(number, why);
  if (device == nullptr) return why;
  const Current current(number);
  if (current.error() != cudaSuccess) return said("no device", current.error());
  const auto stream = static_cast<cudaStream_t>(stream_handle);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (const auto error = cudaStreamIsCapturing(stream, &status); error != cudaSuccess) {
    cudaGetLastError();
    return said("cannot use the stream", error);
  }
  const bool captured = status != cudaStreamCaptureStatusNone;
  why = claim_all(*device, number, count, pending, captured);
  if (why != nullptr) return why;
  cudaError_t error = cudaSuccess;
  std::size_t kept = 0;
  if (captured) error = keep_in_graph(stream, *device->slots, pending, count, kept);
  std::size_t next = 0, launched = 0;
  while (error == cudaSuccess && next < count) {
    error = launch(*device, stream, plans, pending, count, row, captured, next);
    if (error == cudaSuccess) launched = next;
  }
  if (error == cudaSuccess) return nullptr;
  cudaGetLastError();
  for (std::size_t i = 0; i < count; ++i) {
    // The record of what was launched will come; a graph gives its slots back itself.
    if (i < launched || i < kept) {
      device->slots->let_go(*pending[i]);
    } else {
      device->slots->give_up(*pending[i]);
    }
  }
  return said("the scan could not be launched", error);
}

bool pm_cuda_look(std::int32_t number, Pending* pending) {
  if (pending->here) return true;
  const char* why = nullptr;
  Device* const device = device_at(number, why);
  return device != nullptr && device->slots->look(*pending);
}

void pm_cuda_let_go(std::int32_t number, Pending* pending) {
  const char* why = nullptr;
  if (Device* const device = device_at(number, why)) device->slots->let_go(*pending);
}

const char* pm_cuda_health(std::int32_t number) {
  const char* why = nullptr;
  Device* const device = device_at(number, why);
  return device == nullptr ? why : health_of(*device, number);
}

const char* pm_cuda_architectures() { return POSTMORTEM_CUDA_ARCHITECTURES; }
}
