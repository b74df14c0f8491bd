// SPDX-License-Identifier: Apache-2.0
// A plain HTTP client for tests: one socket, bytes in, bytes out. Reads end after 10 s.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/address.h"

namespace troupe::tests {

/// A connection to a loopback address.
class HttpPeer {
 public:
  /// `from`: an address of the loopback to connect from, "127.0.0.2".
  explicit HttpPeer(const base::Address& address, const char* from = nullptr)
      : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    if (from != nullptr) bind_to(from);
    const timeval patience{10, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(address.port);
    inet_pton(AF_INET, address.host.c_str(), &name.sin_addr);
    connected_ = connect(socket_, reinterpret_cast<sockaddr*>(&name), sizeof name) == 0;
  }
  HttpPeer(HttpPeer&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)), connected_(other.connected_) {}
  ~HttpPeer() {
    if (socket_ >= 0) close(socket_);
  }
  bool connected() const { return connected_; }
  int descriptor() const { return socket_; }
  void send(std::string_view text) {
    (void)!::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
  }
  /// Everything until the server closes.
  std::string receive() {
    std::string text;
    char buffer[4096];
    for (ssize_t count; (count = recv(socket_, buffer, sizeof buffer, 0)) > 0;) {
      text.append(buffer, static_cast<std::size_t>(count));
    }
    return text;
  }

 private:
  /// The system chooses the port when it connects: many peers may use the same one.
  void bind_to(const char* from) {
    const int on = 1;
    setsockopt(socket_, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    sockaddr_in own{};
    own.sin_family = AF_INET;
    inet_pton(AF_INET, from, &own.sin_addr);
    (void)bind(socket_, reinterpret_cast<sockaddr*>(&own), sizeof own);
  }

  int socket_;
  bool connected_ = false;
};

/// The whole answer to a GET; empty when nobody listens.
inline std::string http_get(const base::Address& address, const std::string& path) {
  HttpPeer peer(address);
  if (!peer.connected()) return "";
  peer.send("GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n");
  return peer.receive();
}

/// The same with "HOST:PORT".
inline std::string http_get(const std::string& address, const std::string& path) {
  return http_get(base::parse_address(address).value(), path);
}

}  // namespace troupe::tests
