// Socket addresses in words.
#include <arpa/inet.h>

#include "strace/sockets.h"
#include "strace/text.h"

namespace pm::strace {
namespace {

std::string_view between(std::string_view text, std::string_view before, char after) {
  const std::size_t at = text.find(before);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = text.substr(at + before.size());
  const std::size_t end = rest.find(after);
  return end == std::string_view::npos ? std::string_view{} : rest.substr(0, end);
}

// The bytes behind a field, as -X raw writes ports and addresses: sin_port="\x00\x09".
std::string bytes_of(std::string_view raw, std::string_view field) {
  std::string bytes;
  unescape(between(raw, field, '"'), bytes);
  return bytes;
}

std::string raw_address(std::string_view raw) {
  const bool six = raw.find("sin6_port=\"") != std::string_view::npos;
  const std::string port = bytes_of(raw, six ? "sin6_port=\"" : "sin_port=\"");
  const std::string address = bytes_of(raw, six ? "sin6_addr=\"" : "sin_addr=\"");
  char words[INET6_ADDRSTRLEN];
  if (port.size() != 2 || address.size() != (six ? 16 : 4) ||
      !inet_ntop(six ? AF_INET6 : AF_INET, address.data(), words, sizeof words)) {
    return {};
  }
  const unsigned number =
      static_cast<unsigned char>(port[0]) * 256U + static_cast<unsigned char>(port[1]);
  return (six ? "[" + std::string(words) + "]" : words) + ":" + std::to_string(number);
}

}  // namespace

// {sa_family=AF_INET, sin_port=htons(9), sin_addr=inet_addr("127.0.0.1")} as 127.0.0.1:9
std::string address_words(std::string_view raw) {
  const std::string_view port = between(raw, "htons(", ')');
  std::string host;  // in hexadecimal with -xx
  unescape(between(raw, "inet_addr(\"", '"'), host);
  if (!host.empty()) return host + ":" + std::string(port);
  unescape(between(raw, "inet_pton(AF_INET6, \"", '"'), host);
  if (!host.empty()) return "[" + host + "]:" + std::string(port);
  if (raw.find("_port=\"") != std::string_view::npos) return raw_address(raw);
  const auto has = [&](std::string_view word) { return raw.find(word) != std::string_view::npos; };
  if (has("AF_UNIX") || has("AF_LOCAL") || has("AF_FILE")) {  // strace before 4.12, before 4.7
    const std::size_t at = raw.find("path=");
    if (at == std::string_view::npos) return "unix";
    bool quoted;
    std::string path;
    unescape(quoted_part(raw.substr(at), quoted), path);
    if (raw.substr(at + 5).starts_with('@')) path.insert(path.begin(), '@');
    return path;
  }
  return {};
}

}  // namespace pm::strace
