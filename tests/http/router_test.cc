// SPDX-License-Identifier: Apache-2.0
// Router on any bytes: an answer always, a handler's page only for its path.
#include "http/router.h"

#include <rapidcheck.h>

#include <string>

#include "tests/support/catch.h"

namespace troupe::http {
namespace {

const std::string kRequest =
    "GET /page?x=1&y=%20 HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\nRange: bytes=0-3\r\n\r\n";

Router router() {
  return Router({{"/page", [](const Request& request) {
                    return Reply{200, "text/plain", "x is " + request.query.at("x")};
                  }}});
}

TEST_CASE("a path is taken literally", "[http]") {
  Router dots({{"/a.b", [](const Request&) { return Reply{200, "a/b", "here"}; }}});
  CHECK(status_of(dots.answer("GET /a.b HTTP/1.1\r\n\r\n")) == 200);
  CHECK(status_of(dots.answer("GET /axb HTTP/1.1\r\n\r\n")) == 404);
  CHECK(dots.route("GET /a.b?q HTTP/1.1\r\n\r\n") == "/a.b");
  CHECK(dots.route("GET /axb HTTP/1.1\r\n\r\n") == "other");
  CHECK(dots.route("nonsense") == "other");
}

TEST_CASE("HEAD gives the head alone", "[http]") {
  Router pages = router();
  const std::string answer = pages.answer("HEAD /page?x=1 HTTP/1.1\r\n\r\n");
  CHECK(status_of(answer) == 200);
  CHECK(answer.substr(answer.size() - 4) == "\r\n\r\n");
}

TEST_CASE("an answer is one whole page, whatever else a head asks for", "[http]") {
  Router pages({{"/page", [](const Request&) {
                   return Reply{200, "text/plain", std::string(8'000, 'x')};
                 }}});
  const std::string plain = pages.answer("GET /page HTTP/1.1\r\n\r\n");
  std::string ranges = "0-";
  for (int i = 0; i < 2'000; ++i) ranges += ",0-";
  CHECK(pages.answer("GET /page HTTP/1.1\r\nRange: bytes=" + ranges + "\r\n\r\n") == plain);
  CHECK(pages.answer("GET /page HTTP/1.1\r\nAccept: x\nRange: bytes=0-3\r\n\r\n") == plain);
  CHECK(pages.answer("GET /page HTTP/1.1\r\nExpect: 100-continue\r\n\r\n") == plain);
}

TEST_CASE("an answer is compressed for who wants it so", "[http]") {
  Router pages({{"/page", [](const Request&) {
                   return Reply{200, "text/plain", std::string(8'000, 'x')};
                 }}});
  const std::string answer =
      pages.answer("GET /page HTTP/1.1\r\nX: y\r\naccept-ENCODING: gzip\r\n\r\n");
  CHECK(answer.find("Content-Encoding: gzip") != std::string::npos);
  CHECK(answer.size() < 1'000);
}

TEST_CASE("any bytes are answered, and never with success unless they ask for a page", "[http]") {
  Router pages = router();
  rc::check("random bytes", [&] {
    const std::string answer = pages.answer(*rc::gen::arbitrary<std::string>() + "\r\n\r\n");
    RC_ASSERT(status_of(answer) >= 400);
  });
  rc::check("a request with some bytes changed", [&] {
    std::string request = kRequest;
    const int changes = *rc::gen::inRange(1, 6);
    for (int i = 0; i < changes; ++i) {
      request[*rc::gen::inRange<std::size_t>(0, request.size())] = *rc::gen::arbitrary<char>();
    }
    const int status = status_of(pages.answer(request));
    RC_ASSERT(status >= 200);
    RC_ASSERT(status < 600);
  });
}

}  // namespace
}  // namespace troupe::http
