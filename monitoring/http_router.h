// SPDX-License-Identifier: Apache-2.0
// From the bytes of one HTTP request to the bytes of its answer, over cpp-httplib's parser; no
// socket. Used by HttpServer; one thread at a time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

namespace troupe::monitoring {

/// What a handler needs of a request.
struct HttpRequest {
  std::string path;
  std::map<std::string, std::string> query;
};

/// What a handler answers.
struct HttpReply {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
};

using HttpHandler = std::function<HttpReply(const HttpRequest&)>;
/// Handlers of GET and HEAD by exact path, for example "/sd/targets".
using HttpRoutes = std::map<std::string, HttpHandler>;

/// Parses requests, calls handlers, writes answers; anything malformed gets a 4xx answer.
class HttpRouter {
 public:
  explicit HttpRouter(HttpRoutes routes);
  ~HttpRouter();

  /// The whole answer to a whole request head; "Connection: close" always.
  std::string answer(std::string request);
  /// The path of a request as a metric label: a known route, or "other".
  std::string route(const std::string& request) const;

 private:
  class Server;
  HttpRoutes routes_;
  std::unique_ptr<Server> server_;
};

/// The status number in an answer's first line; 0 if there is none.
int http_status(const std::string& answer);

}  // namespace troupe::monitoring
