// SPDX-License-Identifier: Apache-2.0
// Tokens survive their book, which holds no token; what is withdrawn stays so.
#include "trust/token.h"

#include <sys/types.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"
#include "tests/support/catch.h"
#include "tests/support/test_folder.h"

namespace troupe::trust {
namespace {

namespace fs = std::filesystem;
constexpr std::int64_t kNow = 1'700'000'000;
constexpr Validity kDay{kNow, kNow + 86'400};

TEST_CASE("a book of tokens holds their hashes alone") {
  const TestFolder folder("token-test-book");
  std::string text;
  {
    auto book = TokenBook::open(folder.path()).value();
    CHECK(book.tokens().empty());
    text = book.make("alice", {Right::read, Right::submit}, kDay).value();
    CHECK(text.size() == 7 + 64);
    CHECK(book.make("alice", {Right::admin}, kDay).value() != text);
  }
  const auto file = folder.path() / "tokens.json";
  const std::string written = base::read_text_file(file, 1 << 20).value();
  CHECK_THAT(written, !Catch::Contains(text.substr(7)));
  CHECK(base::check_secret(file).ok());
  const auto read = TokenBook::read(folder.path()).value();
  REQUIRE(read.size() == 2);
  CHECK(read[0].hash == base::sha256(text));
  CHECK(read[0].id == base::to_hex(read[0].hash).substr(0, 8));
  CHECK(read[0].name == "alice");
  CHECK(read[0].validity == kDay);
  CHECK(read[0].gives(Right::submit));
  CHECK_FALSE(read[0].gives(Right::stop));
  for (const Right right : {Right::read, Right::submit, Right::stop, Right::join, Right::admin}) {
    CHECK(read[1].gives(right));
    CHECK(parse_right(right_name(right)).value() == right);
  }
}

TEST_CASE("a token is withdrawn by its id, all of a person by the name") {
  const TestFolder folder("token-test-revoke");
  auto book = TokenBook::open(folder.path()).value();
  for (const char* name : {"alice", "alice", "bob"}) {
    REQUIRE(book.make(name, {Right::read}, kDay).ok());
  }
  CHECK(book.revoke(book.tokens()[0].id, kNow).value() == 1);
  CHECK(book.revoke(book.tokens()[0].id, kNow).status().code() == base::Errc::not_found);
  CHECK(book.revoke("alice", kNow + 1).value() == 1);
  CHECK_THAT(book.revoke("alice", kNow).status().text(), Catch::Contains("'alice'"));
  CHECK(book.revoke("bob", kDay.until + 1).value() == 1);  // it has ended; its agents are there
  CHECK(book.revoke("cid", kNow).status().code() == base::Errc::not_found);
  const auto read = TokenBook::read(folder.path()).value();
  CHECK(read == book.tokens());
  CHECK(read[0].withdrawn == kNow);
  CHECK(read[1].withdrawn == kNow + 1);
  CHECK(read[2].withdrawn == kDay.until + 1);
}

TEST_CASE("bad books and tokens are named") {
  const TestFolder folder("token-test-bad");
  const auto file = folder.path() / "tokens.json";
  const auto write = [&](std::string_view text) {
    REQUIRE(
        base::write_file_atomically(file, std::as_bytes(std::span(text)), base::FileMode::secret)
            .ok());
  };
  {
    auto book = TokenBook::open(folder.path()).value();
    CHECK(TokenBook::open(folder.path()).status().code() == base::Errc::already_exists);
    CHECK_THAT(book.make("a b", {Right::read}, kDay).status().text(), Catch::Contains("'a b'"));
    CHECK(book.make("a", {}, kDay).status().code() == base::Errc::invalid_argument);
    CHECK_FALSE(fs::exists(file));
  }
  CHECK(TokenBook::read(folder.path()).status().code() == base::Errc::not_found);
  write("{\"format\": 2}");
  CHECK(TokenBook::read(folder.path()).status().code() == base::Errc::version_mismatch);
  write("{\"format\": 1, \"tokens\": [{\"sha256\": \"xyz\"}]}");
  CHECK_THAT(TokenBook::read(folder.path()).status().text(), Catch::Contains("'xyz' is no hash"));
  write("{");
  CHECK(TokenBook::open(folder.path()).status().code() == base::Errc::data_loss);
  write("{\"format\": 1, \"tokens\": []}");
  fs::permissions(file, fs::perms::others_read, fs::perm_options::add);
  CHECK(TokenBook::read(folder.path()).status().code() == base::Errc::permission_denied);
  CHECK(parse_right("write").status().text() ==
        "'write' is no right: read, submit, stop, join, admin");
}

TEST_CASE("root reads the book of whoever owns the state, and does not make it its own") {
  if (::geteuid() != 0) return;  // only root gives files away
  constexpr uid_t kOther = 12345;
  const TestFolder state("token-test-root");
  const auto folder = state.path() / "tokens";
  REQUIRE(TokenBook::open(folder).value().make("ann", {Right::read}, kDay).ok());
  const auto file = folder / TokenBook::kFile;
  REQUIRE(::chown(file.c_str(), kOther, kOther) == 0);
  CHECK(TokenBook::read(folder).status().code() == base::Errc::permission_denied);
  REQUIRE(::chown(state.path().c_str(), kOther, kOther) == 0);
  CHECK(TokenBook::read(folder).value().size() == 1);
  CHECK(TokenBook::open(folder).status().code() == base::Errc::permission_denied);
}

TEST_CASE("a token's file is its owner's alone") {
  const TestFolder folder("token-test-file");
  const auto file = folder.path() / "token";
  const auto write = [&](std::string_view text, base::FileMode mode) {
    REQUIRE(base::write_file_atomically(file, std::as_bytes(std::span(text)), mode).ok());
  };
  write("troupe_12ab\n", base::FileMode::secret);
  CHECK(read_token(file).value() == "troupe_12ab");
  write("troupe_12ab\n", base::FileMode::shared);
  CHECK(read_token(file).status().code() == base::Errc::permission_denied);
  write("hunter2\n", base::FileMode::secret);
  CHECK_THAT(read_token(file).status().text(), !Catch::Contains("hunter2"));
  CHECK(read_token(folder.path() / "none").status().code() == base::Errc::not_found);
}

}  // namespace
}  // namespace troupe::trust
