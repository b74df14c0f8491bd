// SPDX-License-Identifier: Apache-2.0
// Who may read: tokens in files and requests, as guards and as pages see them.
#include "http/guard.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "http/server.h"
#include "tests/http/guarded_support.h"
#include "tests/support/test_folder.h"

namespace troupe::http {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

constexpr auto kSecret = std::filesystem::perms::owner_read | std::filesystem::perms::owner_write;

std::string written(const std::filesystem::path& path, const std::string& text,
                    std::filesystem::perms mode = kSecret) {
  std::ofstream(path) << text;
  std::filesystem::permissions(path, mode);
  return path.string();
}

TEST_CASE("only the token's word, as a bearer's, is admitted", "[guard]") {
  const TestFolder folder("guard");
  const auto file = written(folder.path() / "token", "0123456789abcdef\n");
  const Guard guard = Guard::open({"", file}).value();
  const std::string get = "GET /metrics HTTP/1.1\r\nHost: x\r\n";
  for (const std::string field :
       {"Authorization: Bearer 0123456789abcdef", "authorization:bearer   0123456789abcdef "}) {
    CHECK(guard.admits(get + field + "\r\n\r\n"));
  }
  for (const std::string field :
       {"Authorization: Bearer 0123456789abcdeg", "Authorization: Bearer 0123456789abcde",
        "Authorization: Bearer 0123456789abcdef0", "Authorization: Bearer",
        "Authorization: Bearer ", "Authorization: Basic 0123456789abcdef",
        "Authorization: 0123456789abcdef", "X-Authorization: Bearer 0123456789abcdef",
        "Authorization: Bearer 0123456789ABCDEF",
        "Authorization: Bearer 0123456789abcdef\r\nAuthorization: Bearer other", "X: y"}) {
    INFO(field);
    CHECK_FALSE(guard.admits(get + field + "\r\n\r\n"));
  }
  CHECK(Guard().admits(get + "\r\n"));
}

TEST_CASE("files that others may read, or that hold no secret, are refused by name", "[guard]") {
  const TestFolder folder("guard");
  const auto fault = [](const GuardFiles& files) { return Guard::open(files).status(); };
  const auto open = written(folder.path() / "open", "0123456789abcdef",
                            kSecret | std::filesystem::perms::others_read);
  CHECK(fault({"", open}).code() == base::Errc::permission_denied);
  CHECK_THAT(fault({"", open}).text(), Contains(open));
  CHECK(fault({open, ""}).code() == base::Errc::permission_denied);
  for (const std::string text : {"", "short", "two words of text", "\n\n"}) {
    const auto file = written(folder.path() / "token", text);
    CHECK_THAT(fault({"", file}).text(), StartsWith(file + ": is no token"));
  }
  const auto made = test::make_certificate();
  for (const std::string& pem : {std::string("x"), made.key, made.certificate,
                                 test::make_certificate().key + made.certificate}) {
    const auto file = written(folder.path() / "pem", pem);
    CHECK(fault({file, ""}).code() == base::Errc::data_loss);
    CHECK_THAT(fault({file, ""}).text(), StartsWith(file + ": [tls] needs a private key"));
  }
  CHECK(fault({"", folder.path() / "none"}).code() == base::Errc::not_found);
}

TEST_CASE("with a token all pages but /healthz want it", "[guard]") {
  const TestFolder folder("guard");
  monitoring::Metrics metrics;
  int asked = 0;
  Options options;
  options.guard = Guard::open({"", written(folder.path() / "token", "0123456789abcdef")}).value();
  options.routes = {{"/page", [&asked](const Request&) {
                       ++asked;
                       return Reply{200, "text/plain", "here"};
                     }}};
  const auto server = Server::start({"127.0.0.1", 0}, {}, metrics, std::move(options)).value();
  for (const std::string path : {"/metrics", "/page", "/nothing", "/healthzz"}) {
    CHECK_THAT(tests::http_get(server->address(), path),
               StartsWith("HTTP/1.1 401 Unauthorized\r\n") && Contains("WWW-Authenticate: Bearer"));
  }
  CHECK(asked == 0);
  CHECK_THAT(tests::http_get(server->address(), "/healthz"), StartsWith("HTTP/1.1 200 OK"));
  tests::HttpPeer peer(server->address());
  peer.send("GET /page HTTP/1.1\r\nAuthorization: Bearer 0123456789abcdef\r\n\r\n");
  CHECK_THAT(peer.receive(), StartsWith("HTTP/1.1 200 OK") && Contains("\r\n\r\nhere"));
}

}  // namespace
}  // namespace troupe::http
