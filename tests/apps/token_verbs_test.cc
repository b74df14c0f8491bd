// SPDX-License-Identifier: Apache-2.0
// troupe token: made once, listed, revoked; never shown.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "apps/program.h"
#include "base/file.h"
#include "tests/apps/run_words.h"
#include "tests/support/catch.h"
#include "tests/support/test_folder.h"
#include "trust/token.h"

namespace troupe::apps {
namespace {

using Catch::Contains;

TEST_CASE("tokens are made, listed and revoked", "[token]") {
  const TestFolder folder("token-verbs-test");
  const std::string state = (folder.path() / "state").string();
  const std::string file = (folder.path() / "alice.token").string();
  const Run made = run({"token", "make", state, "alice", "--out", file, "--for", "1d"});
  REQUIRE(made.code == 0);
  CHECK_THAT(made.out, Contains("of 'alice', read,submit,stop, until "));
  const std::string text = trust::read_token(file).value();
  CHECK_THAT(made.out + made.err, !Contains(text));
  CHECK(run({"token", "make", state, "alice", "--out", file}).code == 6);
  CHECK((std::filesystem::status(state).permissions() & std::filesystem::perms::all) ==
        std::filesystem::perms::owner_all);
  CHECK(trust::read_token(file).value() == text);
  REQUIRE(run({"token", "make", state, "bob", "--rights", "read", "--out", file + "2"}).code == 0);

  CHECK(run({"token", "make", state, "cid", "--out", "-"}).out.starts_with("troupe_"));

  const Run listed = run({"token", "list", state});
  CHECK_THAT(listed.out, Contains("alice") && Contains("bob") && Contains("valid"));
  CHECK_THAT(listed.out, !Contains(text));
  REQUIRE(run({"token", "revoke", state, "alice"}).code == 0);
  const auto json = nlohmann::json::parse(run({"token", "list", state, "--json"}).out);
  CHECK(json["tokens"][0]["state"] == "revoked");
  CHECK(json["tokens"][1]["state"] == "valid");
  CHECK(json["tokens"][1]["rights"] == nlohmann::json::array({"read"}));
  CHECK(run({"token", "revoke", state, "alice"}).code == 5);
}

TEST_CASE("a token that nobody could get is worth nothing", "[token]") {
  const TestFolder folder("token-verbs-test-bad");
  const std::string state = (folder.path() / "state").string();
  CHECK(run({"token", "make", state, "alice", "--out", "/nowhere/token"}).code != 0);
  std::ofstream full("/dev/full");
  std::ostringstream err;
  Console console(full, err);
  Context context(console, {});
  CHECK(run_program({"token", "make", state, "alice", "--out", "-"}, context) != ExitCode::ok);
  const Run listed = run({"token", "list", state});
  CHECK(listed.code == 0);
  CHECK_THAT(listed.out, !Contains("valid"));
  const std::string file = (folder.path() / "t").string();
  CHECK(run({"token", "make", state, "a b", "--out", file}).code == 2);
  CHECK(run({"token", "make", state, "a", "--rights", "write", "--out", file}).code == 2);
  CHECK(run({"token", "make", state, "a", "--rights", "", "--out", file}).code == 2);
  CHECK(run({"token", "make", state, "a", "--for", "ever", "--out", file}).code == 2);
  CHECK(run({"token", "make", state, "a", "--for", "0s", "--out", file}).code == 2);
  CHECK_FALSE(std::filesystem::exists(file));
}

TEST_CASE("a folder that no coordinator has used is told of", "[token]") {
  const TestFolder folder("token-verbs-test-folder");
  const std::string state = (folder.path() / "state").string();
  const std::string wrong = (folder.path() / "sttate").string();
  const std::string file = (folder.path() / "ann.token").string();
  CHECK(run({"token", "make", state, "ann", "--out", file}).err ==
        state + ": no coordinator has used this folder yet; it was made now\n");
  CHECK(run({"token", "make", state, "bob", "--out", file + "2"}).err ==
        state + ": no coordinator has used this folder yet\n");
  for (const char* verb : {"list", "revoke"}) {
    std::vector<std::string> words = {"token", verb, wrong};
    if (words[1] == "revoke") words.emplace_back("ann");
    const Run refused = run(words);
    CHECK(refused.code == 5);
    CHECK_THAT(refused.err, Contains("error: " + wrong + ": no coordinator has used this folder") &&
                                Contains("--state folder"));
    CHECK_FALSE(std::filesystem::exists(wrong));
  }
  std::ofstream(folder.path() / "state/audit.log") << "";
  CHECK(run({"token", "make", state, "cid", "--out", file + "3"}).err.empty());
  const Run again = run({"token", "make", state, "cid", "--out", file});
  CHECK(again.code == 6);
  CHECK_THAT(again.err, Contains(file + ": exists; name another --out"));
}

TEST_CASE("a readable token file is refused before anybody is asked", "[token]") {
  const TestFolder folder("token-verbs-test-mode");
  const auto file = folder.path() / "t";
  const std::string_view text = "troupe_12";
  REQUIRE(base::write_file_atomically(file, std::as_bytes(std::span(text))).ok());
  const Run asked = run({"--coordinator", "127.0.0.1:1", "--token", file.string(), "job", "list"});
  CHECK(asked.code == 8);
  CHECK_THAT(asked.err, Contains("--token") && Contains("mode 644"));
}

}  // namespace
}  // namespace troupe::apps
