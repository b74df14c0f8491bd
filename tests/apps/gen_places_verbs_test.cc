// SPDX-License-Identifier: Apache-2.0
// troupe gen systemd, slurm, kubernetes: what is written is what deploy/ holds, with the values
// asked for. That the files are valid is asked by tests/deploy.
#include <filesystem>
#include <set>
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

const std::filesystem::path kDeploy = std::filesystem::path(TROUPE_SOURCE_DIR) / "deploy";

TEST_CASE("the program holds the files of deploy/", "[gen]") {
  std::set<std::string> names;
  for (const BuiltInFile& file : deploy_files()) {
    INFO(file.name);
    names.emplace(file.name);
    CHECK(file.text == text_of(kDeploy / file.name));
  }
  for (const char* place : {"systemd", "slurm", "kubernetes"}) {
    for (const auto& entry : std::filesystem::directory_iterator(kDeploy / place)) {
      CHECK(names.erase(std::string(place) + "/" + entry.path().filename().string()) == 1);
    }
  }
  CHECK(names.empty());
}

TEST_CASE("without options the files of a place are those of deploy/", "[gen]") {
  for (const std::string place : {"systemd", "slurm", "kubernetes"}) {
    const TestFolder folder("gen");
    CHECK(run({"gen", place, "-o", folder.path().string()}).code == 0);
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      CHECK(text_of(entry.path()) == text_of(kDeploy / place / entry.path().filename()));
      ++count;
    }
    CHECK(count >= 1);
    CHECK(run({"gen", place}).code == 2);
  }
}

TEST_CASE("options of places replace what the files say", "[gen]") {
  const TestFolder folder("gen");
  const std::string out = folder.path().string();
  const auto read = [&](const char* name) { return text_of(folder.path() / name); };
  CHECK(
      run({"--coordinator", "head:7900", "gen", "systemd", "-o", out, "--devices", "cpu:8"}).code ==
      0);
  CHECK_THAT(read("agent.env"), Contains("JOIN=head:7900\n") && Contains("DEVICES=cpu:8\n") &&
                                    !Contains("node1:7700"));
  CHECK_THAT(read("coordinator.env"),
             Contains("LISTEN=0.0.0.0:7900\n") && Contains("\n#DATA_ROOT="));
  CHECK(run({"gen", "systemd", "-o", out, "--force", "--data-root", "/data/lab"}).code == 0);
  CHECK_THAT(read("agent.env"), Contains("\nDATA_ROOT=/data/lab\n"));
  CHECK_THAT(read("coordinator.env"), Contains("\nDATA_ROOT=/data/lab\n"));
  for (const char* service : {"troupe-agent.service", "troupe-coordinator.service"}) {
    CHECK_THAT(read(service), Contains(" --data-root ${DATA_ROOT} "));
  }
  CHECK(run({"gen", "slurm", "-o", out, "--nodes", "5", "--devices", "cpu:3"}).code == 0);
  CHECK_THAT(read("troupe.sbatch"), Contains("#SBATCH --nodes=5\n") &&
                                        Contains("#SBATCH --cpus-per-task=3\n") &&
                                        Contains("\ndevices=cpu:3\n"));
  CHECK(run({"gen", "kubernetes", "-o", out, "--replicas", "7", "--devices", "cpu:4", "--image",
             "registry.lab/t@sha256:1f"})
            .code == 0);
  CHECK_THAT(read("agents.yaml"), Contains("replicas: 7\n") && Contains("--devices=cpu:4\n") &&
                                      Contains("cpu: \"4\"") &&
                                      Contains("image: registry.lab/t@sha256:1f\n"));
  CHECK_THAT(read("coordinator.yaml"), Contains("replicas: 1\n") && !Contains("troupe:latest"));
}

TEST_CASE("values of places are checked", "[gen]") {
  const TestFolder folder("gen");
  const std::string out = folder.path().string();
  CHECK(run({"gen", "kubernetes", "-o", out, "--image", "a b"}).code == 2);
  CHECK(run({"gen", "kubernetes", "-o", out, "--replicas", "0"}).code == 2);
  CHECK(run({"gen", "slurm", "-o", out, "--devices", "gpu:1"}).code == 2);
  CHECK(run({"--coordinator", "h\nX=y:77", "gen", "systemd", "-o", out}).code == 2);
  for (const char* root : {"data", "/a\nX=y", "/a b", "/$HOME", "/a\\"}) {
    CHECK(run({"gen", "systemd", "-o", out, "--data-root", root}).code == 2);
  }
  CHECK(run({"--coordinator", "head", "gen", "systemd", "-o", out}).code == 2);
  CHECK(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace troupe::apps
