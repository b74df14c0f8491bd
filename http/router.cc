// SPDX-License-Identifier: Apache-2.0
// cpp-httplib's server, fed from memory instead of from a socket: it parses, routes, compresses and
// writes, and never waits for a peer.
#include "http/router.h"

#include <httplib.h>

#include <array>
#include <charconv>
#include <cstring>
#include <string_view>

namespace troupe::http {
namespace {

/// A request in, an answer out.
class MemoryStream final : public httplib::Stream {
 public:
  explicit MemoryStream(std::string input) : input_(std::move(input)) {}
  std::string take_output() { return std::move(output_); }

  bool is_readable() const override { return read_ < input_.size(); }
  bool is_writable() const override { return true; }
  ssize_t read(char* bytes, size_t size) override {
    const size_t count = std::min(size, input_.size() - read_);
    std::memcpy(bytes, input_.data() + read_, count);
    read_ += count;
    return static_cast<ssize_t>(count);
  }
  ssize_t write(const char* bytes, size_t size) override {
    output_.append(bytes, size);
    return static_cast<ssize_t>(size);
  }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return -1; }

 private:
  std::string input_;
  size_t read_ = 0;
  std::string output_;
};

/// The headers that an answer may depend on. The library does more for others (many ranges of one
/// page, bodies), and how much that costs is the peer's choice.
constexpr std::array<std::string_view, 3> kHeadersKept = {"accept", "accept-encoding", "host"};

bool same_name(std::string_view name, std::string_view lower) {
  return std::equal(name.begin(), name.end(), lower.begin(), lower.end(), [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
  });
}

/// The request line as it is, and of each header in kHeadersKept the first.
std::string needed_of(std::string_view request) {
  std::string result;
  std::array<bool, kHeadersKept.size()> seen{};
  for (bool first = true; !request.empty(); first = false) {
    const std::size_t end = request.find('\n');  // the library, too, ends a line here
    std::string_view line = request.substr(0, end);
    request.remove_prefix(end == std::string_view::npos ? request.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    bool kept = first;
    for (std::size_t i = 0; i < seen.size() && !first; ++i) {
      if (seen[i] || !same_name(line.substr(0, line.find(':')), kHeadersKept[i])) continue;
      kept = seen[i] = true;
    }
    if (kept) result.append(line).append("\r\n");
  }
  return result + "\r\n";
}

Request to_request(const httplib::Request& request) {
  Request result{request.path, {}};
  for (const auto& [name, value] : request.params) result.query.emplace(name, value);
  return result;
}

}  // namespace

class Router::Server final : public httplib::Server {
 public:
  explicit Server(const Routes& routes) {
    for (const auto& [path, handler] : routes) add(path, handler);
    set_error_handler(Handler([](const httplib::Request& request, httplib::Response& response) {
      response.set_content("no page '" + request.path + "' here\n", "text/plain");
    }));
    set_payload_max_length(0);
  }

  std::string answer(std::string bytes) {
    MemoryStream stream(std::move(bytes));
    bool closed = false;
    process(*this, stream, closed);
    return stream.take_output();
  }

 private:
  /// Later versions (0.18, not 0.11) of the library also take the addresses of both ends; here are
  /// none.
  template <typename Self>
  static void process(Self& self, MemoryStream& stream, bool& closed) {
    if constexpr (requires { self.process_request(stream, true, closed, nullptr); }) {
      self.process_request(stream, true, closed, nullptr);
    } else {
      self.process_request(stream, "", 0, "", 0, true, closed, nullptr);
    }
  }

  void add(const std::string& path, const http::Handler& handler) {
    std::string pattern;  // paths are literal; httplib takes regular expressions
    for (const char c : path) {
      if (std::strchr(".+*?()[]{}|^$\\", c) != nullptr) pattern += '\\';
      pattern += c;
    }
    Get(pattern, [handler](const httplib::Request& request, httplib::Response& response) {
      Reply reply = handler(to_request(request));
      response.status = reply.status;
      response.set_content(std::move(reply.body), reply.content_type);
    });
  }
};

Router::Router(Routes routes)
    : routes_(std::move(routes)), server_(std::make_unique<Server>(routes_)) {}
Router::~Router() = default;

std::string Router::answer(std::string_view request) {
  try {
    std::string bytes = server_->answer(needed_of(request));
    if (!bytes.empty()) return bytes;
  } catch (const std::exception&) {
    // httplib throws on some malformed numbers in headers.
  }
  return "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
}

std::string Router::route(const std::string& request) const {
  const std::size_t begin = request.find(' ');
  if (begin == std::string::npos) return "other";
  const std::size_t end = request.find_first_of(" ?\r", begin + 1);
  const std::string path = request.substr(begin + 1, end - begin - 1);
  return routes_.count(path) != 0 ? path : "other";
}

int status_of(const std::string& answer) {
  const std::size_t space = answer.find(' ');
  int status = 0;
  if (space != std::string::npos) {
    std::from_chars(answer.data() + space + 1, answer.data() + answer.size(), status);
  }
  return status;
}

}  // namespace troupe::http
