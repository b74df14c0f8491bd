// SPDX-License-Identifier: Apache-2.0
// From the bytes of one HTTP request to the bytes of its answer, over cpp-httplib's parser; no
// socket. Used by Server; one thread at a time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace troupe::http {

/// What a handler needs of a request.
struct Request {
  std::string path;
  std::map<std::string, std::string> query;
};

/// What a handler answers.
struct Reply {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
};

using Handler = std::function<Reply(const Request&)>;
/// Handlers of GET and HEAD by exact path, for example "/sd/targets".
using Routes = std::map<std::string, Handler>;

/// Parses requests, calls handlers, writes answers; anything malformed gets a 4xx answer.
class Router {
 public:
  explicit Router(Routes routes);
  ~Router();

  /// The whole answer to a whole request head; "Connection: close" always. Of the head only the
  /// first line and the headers Accept, Accept-Encoding and Host count: an answer is a page, whole.
  std::string answer(std::string_view request);
  /// The path of a request as a metric label: a known route, or "other".
  std::string route(const std::string& request) const;

 private:
  class Server;
  Routes routes_;
  std::unique_ptr<Server> server_;
};

/// The status number in an answer's first line; 0 if there is none.
int status_of(const std::string& answer);

}  // namespace troupe::http
