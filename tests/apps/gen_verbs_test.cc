// SPDX-License-Identifier: Apache-2.0
// troupe gen: what is written is what monitoring/ holds, with the addresses asked for, and never
// over somebody's own file.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "apps/built_in_files.h"
#include "apps/program.h"
#include "tests/apps/run_words.h"
#include "tests/support/catch.h"
#include "tests/support/test_folder.h"

namespace troupe::apps {
namespace {

using Catch::Contains;

const std::filesystem::path kMonitoring = std::filesystem::path(TROUPE_SOURCE_DIR) / "monitoring";

TEST_CASE("the program holds the files of its sources", "[gen]") {
  CHECK(watching_files().size() >= 11);
  for (const BuiltInFile& file : watching_files()) {
    INFO(file.name);
    CHECK(file.text == text_of(kMonitoring / file.name));
  }
}

TEST_CASE("a single file goes to standard output", "[gen]") {
  const Run alerts = run({"gen", "alerts"});
  CHECK(alerts.code == 0);
  CHECK(alerts.out == text_of(kMonitoring / "alerts.yml"));
  CHECK(run({"gen", "prometheus"}).out == text_of(kMonitoring / "prometheus.yml"));
  const std::string other = run({"gen", "prometheus", "--metrics", "10.0.0.7:99"}).out;
  CHECK_THAT(other, Contains("url: http://10.0.0.7:99/sd/targets\n") && !Contains("127.0.0.1"));
  const Run made = run({"gen", "prometheus", "--metrics", "head:99", "--metrics-ca", "/e/ca.pem",
                        "--metrics-token", "/e/token"});
  const std::string& guarded = made.out;
  CHECK(made.err ==
        "warning: --metrics-ca /e/ca.pem: there is no such file here; Prometheus needs it where it "
        "runs\nwarning: --metrics-token /e/token: there is no such file here; Prometheus needs it "
        "where it runs\n");
  CHECK_THAT(guarded,
             Contains("  - job_name: troupe\n    scheme: https\n    tls_config:\n      "
                      "ca_file: \"/e/ca.pem\"\n    authorization:\n      type: Bearer\n      "
                      "credentials_file: \"/e/token\"\n    http_sd_configs:\n"));
  CHECK_THAT(guarded,
             Contains("      - url: https://head:99/sd/targets\n        refresh_interval: "
                      "15s\n        tls_config:\n          ca_file: \"/e/ca.pem\"\n        "
                      "authorization:\n          type: Bearer\n          credentials_file: "
                      "\"/e/token\"\n"));
}

TEST_CASE("paths in prometheus.yml are absolute and quoted", "[gen]") {
  const TestFolder folder("gen");
  const std::string odd = (folder.path() / "a \"#: {ca}.pem").string();
  std::ofstream(odd) << "x";
  const Run made = run({"gen", "prometheus", "--metrics-ca", odd, "--metrics-token", "token"});
  CHECK_THAT(made.out, Contains("ca_file: \"" + folder.path().string() + "/a \\\"#: {ca}.pem\"\n"));
  const std::string token = (std::filesystem::current_path() / "token").string();
  CHECK_THAT(made.out, Contains("credentials_file: \"" + token + "\"\n"));
  CHECK_THAT(made.err, !Contains("--metrics-ca") && Contains("--metrics-token token: there is no"));
}

TEST_CASE("several files need a folder, addresses are checked", "[gen]") {
  const Run grafana = run({"gen", "grafana"});
  CHECK(grafana.code == 2);
  CHECK_THAT(grafana.err, Contains("--out is required"));
  CHECK(run({"gen", "prometheus", "--metrics", "nowhere"}).code == 2);
  CHECK(run({"gen"}).code == 2);
}

TEST_CASE("Grafana's files name each other and Prometheus", "[gen]") {
  const TestFolder folder("gen");
  const std::string out = folder.path().string();
  const Run made = run({"gen", "grafana", "-o", out, "--prometheus", "10.0.0.8:90"});
  CHECK(made.code == 0);
  for (const BuiltInFile& file : watching_files()) {
    if (file.name.ends_with(".json")) CHECK(text_of(folder.path() / file.name) == file.text);
  }
  CHECK(std::count(made.out.begin(), made.out.end(), '\n') == 9);
  CHECK_THAT(made.out, Contains((folder.path() / "dashboards/job.json").string() + "\n"));
  CHECK_THAT(text_of(folder.path() / "provisioning/datasources/troupe.yml"),
             Contains("url: http://10.0.0.8:90\n"));
  CHECK_THAT(text_of(folder.path() / "provisioning/dashboards/troupe.yml"),
             Contains("path: \"" + out + "/dashboards\"\n"));
}

TEST_CASE("odd names of folders and addresses make no other YAML", "[gen]") {
  const TestFolder folder("gen");
  const std::string odd = (folder.path() / "a$HOME \"#:\nb").string();
  REQUIRE(run({"gen", "grafana", "-o", odd}).code == 0);
  // Grafana takes $$ for a dollar, and $HOME for a variable.
  CHECK_THAT(text_of(std::filesystem::path(odd) / "provisioning/dashboards/troupe.yml"),
             Contains("path: \"" + folder.path().string() + "/a$$HOME \\\"#:\\nb/dashboards\"\n"));
  for (const char* address : {"a\"b:1", "a b:1", "a#b:1"}) {
    INFO(address);
    const Run prometheus = run({"gen", "prometheus", "--metrics", address});
    CHECK(prometheus.code == 2);
    CHECK(prometheus.out.empty());
    CHECK_THAT(prometheus.err, Contains("--metrics"));
    const std::string out = (folder.path() / "out").string();
    CHECK(run({"gen", "grafana", "-o", out, "--prometheus", address}).code == 2);
    CHECK_FALSE(std::filesystem::exists(out));
  }
}

TEST_CASE("what is there with other content stays, unless it may be replaced", "[gen]") {
  const TestFolder folder("gen");
  const std::string out = (folder.path() / "new/deep").string();
  CHECK(run({"gen", "grafana", "-o", out}).code == 0);
  CHECK(run({"gen", "grafana", "-o", out}).code == 0);
  const std::filesystem::path own = std::filesystem::path(out) / "dashboards/workers.json";
  const std::filesystem::path other = std::filesystem::path(out) / "dashboards/job.json";
  std::ofstream(own) << "mine";
  std::filesystem::remove(other);
  const Run refused = run({"gen", "grafana", "-o", out});
  CHECK(refused.code == 6);
  CHECK(refused.err ==
        "error: " + own.string() + ": exists with other content; --force replaces it\n");
  CHECK(text_of(own) == "mine");
  CHECK_FALSE(std::filesystem::exists(other));
  CHECK(run({"gen", "grafana", "-o", out, "--force"}).code == 0);
  CHECK(text_of(own) == text_of(kMonitoring / "dashboards/workers.json"));
}

TEST_CASE("a folder that cannot be made is named", "[gen]") {
  const TestFolder folder("gen");
  const std::string file = (folder.path() / "file").string();
  std::ofstream(file) << "x";
  const Run made = run({"gen", "alerts", "-o", file});
  CHECK(made.code != 0);
  CHECK_THAT(made.err, Contains(file));
}

}  // namespace
}  // namespace troupe::apps
