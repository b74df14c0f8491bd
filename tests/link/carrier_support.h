// SPDX-License-Identifier: Apache-2.0
// Test support for carriers: two ends of one connection on a loopback socket, driven by
// hand.
#pragma once

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "link/tls_carrier.h"
#include "tests/link/cluster_support.h"
#include "tests/support/catch.h"

namespace troupe::link::test {

/// Two ends of one connection on one thread.
class Ends {
 public:
  using Make = std::function<std::shared_ptr<Carrier>(Socket socket)>;

  Ends(const Make& dialing, const Make& accepting) {
    asio::ip::tcp::acceptor acceptor(io,
                                     asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), 0));
    asio::ip::tcp::socket near(io);
    near.connect(acceptor.local_endpoint());
    asio::ip::tcp::socket far = acceptor.accept();
    raw_near = near.native_handle();
    a = dialing(Socket(std::move(near)));
    b = accepting(Socket(std::move(far)));
  }
  ~Ends() {
    a->close();
    b->close();
    io.poll();
  }

  /// Runs until `done` holds; a test that waits for ever fails.
  void until(const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!done()) {
      if (std::chrono::steady_clock::now() > deadline) FAIL("nothing came within 20 s");
      io.restart();
      io.run_for(std::chrono::milliseconds(50));
    }
  }

  asio::io_context io;
  std::shared_ptr<Carrier> a;
  std::shared_ptr<Carrier> b;
  int raw_near = -1;
};

/// Reads a carrier to its end, or to `most` bytes.
class Reader {
 public:
  Reader(std::shared_ptr<Carrier> carrier, std::size_t first, std::size_t second)
      : carrier_(std::move(carrier)), first_(first), second_(second) {}

  void start() {
    carrier_->receive(first_, second_, [this](const base::Status& status, std::size_t bytes) {
      if (!status.ok()) {
        end = status;
        return;
      }
      const std::size_t begin = std::min(bytes, first_.size());
      text.insert(text.end(), first_.begin(), first_.begin() + static_cast<long>(begin));
      text.insert(text.end(), second_.begin(), second_.begin() + static_cast<long>(bytes - begin));
      start();
    });
  }

  std::vector<std::byte> text;
  std::optional<base::Status> end;

 private:
  std::shared_ptr<Carrier> carrier_;
  std::vector<std::byte> first_;
  std::vector<std::byte> second_;
};

}  // namespace troupe::link::test
