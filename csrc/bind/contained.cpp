// What a process that reads evidence does about itself: who watches it, and what it may not do.
#include "bind/register.h"

#include <pybind11/stl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "base/drawer.h"
#include "base/underway.h"

namespace py = pybind11;

namespace pm::bind {
namespace {

void watch(const py::buffer& page) {
  const py::buffer_info info = page.request(true);
  if (info.size < static_cast<py::ssize_t>(underway::kPathBytes)) {
    throw py::value_error("the page is too small");
  }
  page.inc_ref();  // for ever: any thread may write to it
  underway::watch(static_cast<char*>(info.ptr));
}

int put_away(const std::vector<int>& descriptors) {
  const int drawer = pm::put_away(descriptors);
  if (drawer < 0) {
    PyErr_SetFromErrno(PyExc_OSError);
    throw py::error_already_set();
  }
  return drawer;
}

// No TCP for who reads evidence and for what that starts, where the kernel can (Landlock of
// Linux 6.7 and later; older headers lack the names). True if it holds.
bool renounce_tcp() {
  constexpr long kCreateRuleset = 444, kRestrictSelf = 446;
  const struct {
    std::uint64_t files = 0;
    std::uint64_t net = 3;  // LANDLOCK_ACCESS_NET_BIND_TCP, LANDLOCK_ACCESS_NET_CONNECT_TCP
  } handled;
  const auto rules = static_cast<int>(syscall(kCreateRuleset, &handled, sizeof handled, 0));
  if (rules < 0) return false;
  const bool done = syscall(kRestrictSelf, rules, 0) == 0;
  close(rules);
  return done;
}

// No program that is started gains rights, and if asked no TCP: whoever is under Landlock, for
// whatever reason, cannot read the memory of processes that are not (landlock(7), ptrace). Returns
// whether all that was asked for holds.
bool renounce_rights(bool tcp) {
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && (!tcp || renounce_tcp());
}

void lower_limit(__rlimit_resource_t which, std::uint64_t most) {
  rlimit limit{};
  if (getrlimit(which, &limit) != 0) return;
  limit.rlim_cur = std::min({static_cast<rlim_t>(most), limit.rlim_cur, limit.rlim_max});
  setrlimit(which, &limit);
}

// Nothing may be more than it is now; what is left out stays as it is. A core would hold the
// evidence, and be found as evidence. (Python's own module for this costs more to import than all
// else that is done here.)
void lower_limits(const std::optional<std::uint64_t>& data_bytes,
                  const std::optional<std::uint64_t>& cpu_seconds) {
  lower_limit(RLIMIT_CORE, 0);
  if (data_bytes) lower_limit(RLIMIT_DATA, *data_bytes);
  if (cpu_seconds) lower_limit(RLIMIT_CPU, *cpu_seconds);
}

}  // namespace

void register_contained(py::module_& module) {
  module.def("watch", &watch, py::arg("page"));
  module.def(
      "refuse",
      [](const std::filesystem::path& path, const std::string& why) {
        underway::refuse(path, why);
      },
      py::arg("path"), py::arg("why"));
  module.def("put_away", &put_away, py::arg("descriptors"));
  module.def("take_out", &take_out, py::arg("drawer"));
  module.def("renounce_rights", &renounce_rights, py::arg("tcp"));
  module.def("lower_limits", &lower_limits, py::arg("data_bytes"), py::arg("cpu_seconds"));
}

}  // namespace pm::bind
