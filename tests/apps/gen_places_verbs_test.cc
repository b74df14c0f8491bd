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
  CHECK(run({"--coordinator", "[fd77::1]:7900", "gen", "systemd", "-o", out, "--force"}).code == 0);
  CHECK_THAT(read("coordinator.env"),
             Contains("\nLISTEN=[::]:7900\n") && Contains("\nMETRICS=[::]:7701\n"));
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

TEST_CASE("places are asked for the GPUs of the slots", "[gen]") {
  const TestFolder folder("gen");
  const std::string out = folder.path().string();
  const auto read = [&](const char* name) { return text_of(folder.path() / name); };
  CHECK(run({"gen", "slurm", "-o", out, "--devices", "cpu:1,gpu:0,1,1"}).code == 0);
  CHECK_THAT(read("troupe.sbatch"),
             Contains("#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=2\n"
                      "#SBATCH --cpus-per-task=13\n") &&
                 Contains("\ndevices=cpu:1,gpu:0,1,1\n"));
  CHECK(run({"gen", "kubernetes", "-o", out, "--devices", "gpu:0,2"}).code == 0);
  CHECK_THAT(read("agents.yaml"), Contains("--devices=gpu:0,2\n") &&
                                      Contains("requests: {cpu: \"8\", memory: 2Gi}\n") &&
                                      Contains("- name: TROUPE_KERNEL_CACHE\n") &&
                                      Contains("limits: {memory: 8Gi, nvidia.com/gpu: 3}\n") &&
                                      Contains("limits: {memory: 64Mi}\n"));
  CHECK_THAT(read("coordinator.yaml"), !Contains("nvidia"));
  // Whoever writes the files need not have the GPUs; systemd is asked for none.
  CHECK(run({"gen", "systemd", "-o", out, "--devices", "gpu:all"}).code == 0);
  CHECK_THAT(read("agent.env"), Contains("\nDEVICES=gpu:all\n"));
  CHECK_THAT(read("troupe-agent.service"),
             Contains("\nDeviceAllow=char-nvidia* rw\nDevicePolicy=closed\n") &&
                 !Contains("PrivateDevices=yes"));
  CHECK_THAT(read("troupe-coordinator.service"),
             Contains("\nPrivateDevices=yes\n") && !Contains("nvidia"));
  for (const char* place : {"slurm", "kubernetes"}) {
    const Run refused = run({"gen", place, "-o", out, "--force", "--devices", "cpu:1,gpu:all"});
    CHECK(refused.code == 2);
    CHECK_THAT(refused.err, Contains("error: --devices: 'cpu:1,gpu:all' does not say how many"));
  }
}

TEST_CASE("values of places are checked", "[gen]") {
  const TestFolder folder("gen");
  const std::string out = folder.path().string();
  CHECK(run({"gen", "kubernetes", "-o", out, "--image", "a b"}).code == 2);
  CHECK(run({"gen", "kubernetes", "-o", out, "--replicas", "0"}).code == 2);
  CHECK(run({"gen", "slurm", "-o", out, "--devices", "gpu:64"}).code == 2);
  CHECK(run({"--coordinator", "h\nX=y:77", "gen", "systemd", "-o", out}).code == 2);
  for (const char* root : {"data", "/a\nX=y", "/a b", "/$HOME", "/a\\"}) {
    CHECK(run({"gen", "systemd", "-o", out, "--data-root", root}).code == 2);
  }
  CHECK(run({"--coordinator", "head", "gen", "systemd", "-o", out}).code == 2);
  CHECK(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace troupe::apps
