// Throws PyTorch's own exception in a thread of its own.
#include <c10/util/Exception.h>

#include <thread>

extern "C" void boom() {
  std::thread([] {
    TORCH_CHECK_WITH(DistBackendError, false,
                     "NCCL error in: ProcessGroupNCCL.cpp:2251, unhandled system error, rank ", 3);
  }).join();
}
