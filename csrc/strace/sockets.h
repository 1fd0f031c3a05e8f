// Connections: who called whom, what came of it, and what was sent through them.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "strace/processes.h"
#include "strace/tracker_options.h"

namespace pm::strace {

// {sa_family=AF_INET, sin_port=htons(9), sin_addr=inet_addr("127.0.0.1")} as 127.0.0.1:9; nothing
// if it is no address.
std::string address_words(std::string_view raw);

class Sockets {
 public:
  Sockets(const TrackerOptions& options, Descriptions& descriptions, const Processes& processes)
      : options_(options), descriptions_(descriptions), processes_(processes) {}

  // connect() or bind(): the socket has an address from now on.
  void addressed(const Task& task, const Event& event);
  // bind() to port 0 lets the kernel choose one; getsockname() says which.
  void told_address(const Task& task, const Event& event);
  // How a connect() ended.
  void connected(const Task& task, const Event& event, const Opened& by);
  // `made` is the description of what accept() gave.
  void accepted(const Task& task, const Event& event, std::int32_t made, const Opened& by);
  // getsockopt(3, SOL_SOCKET, SO_ERROR, [111], [4]): what became of a connect() in progress.
  void told_error(const Task& task, const Event& event);
  // A read or write of anything: bytes are counted.
  void transferred(const Task& task, const Event& event, Place place);
  // epoll_ctl(3, EPOLL_CTL_ADD, 5, {…})
  void watched(const Task& task, const Event& event);
  // A wait for a descriptor came back with nothing.
  void silent(std::int32_t description, const Event& event, std::string_view text, Place place);
  // Descriptors in control messages (SCM_RIGHTS).
  void sent(const Task& task, std::string_view arguments);
  void received(Task& task, std::string_view arguments, const Opened& by);

  const std::vector<Connection>& connections() const noexcept { return connections_; }
  const std::vector<NameMessage>& name_messages() const noexcept { return name_messages_; }

 private:
  void announce_connect(std::int32_t one);
  void keep_name_message(const Task& task, const Event& event, const Description& socket,
                         Place place);
  Connection& connection(const Description& socket) {
    return connections_[static_cast<std::size_t>(socket.connection)];
  }

  const TrackerOptions& options_;
  Descriptions& descriptions_;
  const Processes& processes_;
  std::unordered_map<std::string, std::vector<std::int32_t>> connecting_;  // by address
  std::unordered_map<std::string, std::vector<std::int32_t>> accepting_;   // the same, by_entry
  std::vector<std::int32_t> sent_unpaired_;
  std::vector<Connection> connections_;
  std::vector<NameMessage> name_messages_;
};

}  // namespace pm::strace
