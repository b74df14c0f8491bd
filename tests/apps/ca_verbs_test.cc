// SPDX-License-Identifier: Apache-2.0
// troupe ca from the first words to a revoked machine.
#include <filesystem>

#include "apps/program.h"
#include "tests/apps/run_words.h"
#include "tests/support/catch.h"
#include "tests/support/test_folder.h"
#include "trust/credentials.h"

namespace troupe::apps {
namespace {

using Catch::Contains;
using Catch::Matchers::Matches;

TEST_CASE("an authority signs, renews, lists and revokes", "[ca]") {
  const TestFolder folder("ca-test");
  const std::string ca = (folder.path() / "ca").string();
  const std::string file = (folder.path() / "node1.pem").string();
  const Run made = run({"ca", "init", ca, "--cluster", "lab"});
  REQUIRE(made.code == 0);
  CHECK_THAT(made.err, Contains("authority.pem secret") && Contains("ca issue " + ca));
  CHECK(run({"ca", "init", ca, "--cluster", "lab"}).code == 6);

  const Run issued = run({"ca", "issue", ca, "agent", "node1", "--out", file, "--for", "1d"});
  REQUIRE(issued.code == 0);
  CHECK_THAT(issued.out, Contains(file + ": agent 'node1' of cluster 'lab', certificate ") &&
                             Matches(".*until [0-9]{4}-[0-9-]+T[0-9:]+Z\n"));
  const auto first = trust::read_credentials(file).value();
  CHECK(first.info.validity.until - first.info.validity.from == 86'400 + 300);
  CHECK(run({"ca", "issue", ca, "agent", "node1", "--out", file + "2"}).code == 6);
  CHECK_THAT(run({"ca", "issue", ca, "agent", "node2", "--out", file}).err,
             Contains(file + ": exists; troupe ca renew replaces it"));
  CHECK(trust::read_credentials(file)->to_pem() == first.to_pem());

  REQUIRE(run({"ca", "renew", ca, file}).code == 0);
  const auto second = trust::read_credentials(file).value();
  CHECK(second.info.identity == first.info.identity);
  CHECK(second.info.serial != first.info.serial);
  CHECK_THAT(run({"ca", "list", ca}).out, Contains(first.info.serial) &&
                                              Contains(second.info.serial) && Contains("valid") &&
                                              !Contains("revoked"));
  REQUIRE(run({"ca", "revoke", ca, "agent", "node1"}).code == 0);
  CHECK_THAT(run({"ca", "list", ca}).out, Contains("revoked") && !Contains("valid"));
  CHECK(run({"ca", "renew", ca, file}).code == 8);
  CHECK(run({"ca", "revoke", ca, "agent", "node1"}).code == 0);  // and writes the list again
  CHECK(run({"ca", "revoke", ca, "agent", "node9"}).code == 5);
  const Run taken = run({"ca", "issue", ca, "agent", "node1", "--out", file});
  CHECK(taken.code == 6);
  CHECK(taken.err == "error: " + file +
                         ": exists; its certificate was revoked: move it away, or name another "
                         "--out\n");
  CHECK(run({"ca", "issue", ca, "agent", "node1", "--out", file + "3"}).code == 0);
}

TEST_CASE("words that ca cannot obey are refused", "[ca]") {
  const TestFolder folder("ca-test-bad");
  const std::string ca = (folder.path() / "ca").string();
  CHECK(run({"ca"}).code == 2);
  CHECK(run({"ca", "init", ca}).code == 2);
  CHECK(run({"ca", "init", ca, "--cluster", "a b"}).code == 2);
  CHECK(run({"ca", "list", ca}).code == 5);
  REQUIRE(run({"ca", "init", ca, "--cluster", "lab"}).code == 0);
  const std::string file = (folder.path() / "x.pem").string();
  CHECK(run({"ca", "issue", ca, "king", "x", "--out", file}).code == 2);
  CHECK(run({"ca", "issue", ca, "agent", "x/y", "--out", file}).code == 2);
  CHECK(run({"ca", "issue", ca, "agent", "x", "--out", file, "--for", "soon"}).code == 2);
  CHECK_THAT(run({"ca", "issue", ca, "agent", "x", "--out", file, "--for", "7days"}).err,
             Contains("'7days' is no duration; write it like 250ms, 10s, 5m, 2h or 7d"));
  for (const char* none : {"0s", "999ms"}) {
    const Run refused = run({"ca", "issue", ca, "agent", "x", "--out", file, "--for", none});
    CHECK(refused.code == 2);
    CHECK_THAT(refused.err, Contains("--for: '" + std::string(none) + "' is too short a time"));
  }
  CHECK_FALSE(std::filesystem::exists(file));
}

TEST_CASE("a file that cannot be written uses up no name", "[ca]") {
  const TestFolder folder("ca-test-out");
  const std::string ca = (folder.path() / "ca").string();
  const std::string file = (folder.path() / "x.pem").string();
  REQUIRE(run({"ca", "init", ca, "--cluster", "lab"}).code == 0);
  const std::string nowhere = (folder.path() / "nowhere/x.pem").string();
  const Run failed = run({"ca", "issue", ca, "agent", "x", "--out", nowhere});
  CHECK(failed.code == 5);
  CHECK_THAT(failed.err, Contains(nowhere));
  CHECK_THAT(run({"ca", "list", ca}).out, !Contains("agent"));
  CHECK(run({"ca", "issue", ca, "agent", "x", "--out", file}).code == 0);
}

TEST_CASE("times that no certificate can hold are refused, or end with the authority", "[ca]") {
  const TestFolder folder("ca-test-times");
  const std::string ca = (folder.path() / "ca").string();
  for (const char* time : {"3000000d", "99999999999d"}) {
    const Run late = run({"ca", "init", ca, "--cluster", "lab", "--for", time});
    CHECK(late.code == 3);
    CHECK_THAT(late.err, Contains("9999-12-31T23:59:59Z is the last day"));
  }
  REQUIRE(run({"ca", "init", ca, "--cluster", "lab"}).code == 0);
  const std::string file = (folder.path() / "x.pem").string();
  const Run made = run({"ca", "issue", ca, "agent", "x", "--out", file, "--for", "3000000d"});
  CHECK(made.code == 0);
  CHECK_THAT(made.err, Contains("as long as the authority itself"));
  const auto credentials = trust::read_credentials(file).value();
  CHECK(credentials.info.validity.until ==
        trust::read_certificate(credentials.authority)->validity.until);
}

}  // namespace
}  // namespace troupe::apps
