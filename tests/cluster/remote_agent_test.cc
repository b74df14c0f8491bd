// SPDX-License-Identifier: Apache-2.0
// The command for a host, in a real shell, with programs that stand in for troupe.
#include "cluster/remote_agent.h"

#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <thread>

#include "cluster/remote_process.h"
#include "tests/support/catch.h"
#include "tests/support/test_folder.h"

namespace troupe::cluster {
namespace {

using Catch::Contains;
using Words = std::vector<std::string>;

/// A host: a folder with a program and temporary files of its own.
class Host {
 public:
  /// `program`: a script's text.
  explicit Host(const std::string& program) : folder_("remote-agent-test") {
    std::filesystem::create_directories(temporary());
    std::ofstream(agent_.program = (folder_.path() / "a program").string())
        << "#!/bin/sh\n" + program;
    ::chmod(agent_.program.c_str(), 0700);
    agent_.host = parse_host_list("ann@b:3").value().front();
    agent_.join = "10.0.0.1:7700";
    agent_.nearby = "10.0.0.1";
  }
  RemoteAgent& agent() { return agent_; }
  RemoteFiles& files() { return files_; }
  std::filesystem::path temporary() const { return folder_.path() / "tmp"; }
  /// Starts the command in the shell that ssh would have started; `connection`: SSH_CONNECTION;
  /// `behind`: words behind the command.
  std::unique_ptr<RemoteProcess> start(const std::string& connection = "",
                                       const std::string& behind = "") const {
    Words words = {"env", "TMPDIR=" + temporary().string(), "SSH_CONNECTION=" + connection, "sh",
                   "-c",  remote_command(agent_) + behind};
    return RemoteProcess::start(words, remote_input(files_)).value();
  }

 private:
  TestFolder folder_;
  RemoteAgent agent_;
  RemoteFiles files_{"-----BEGIN-----\nsecret\n", "", ""};
};

/// Until `done`, for at most two minutes.
void wait_for(const std::function<bool()>& done) {
  for (int i = 0; i < 6'000 && !done(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  REQUIRE(done());
}

/// Waits for its end; returns how, and all that it wrote.
std::pair<std::string, std::string> end_of(RemoteProcess& process) {
  std::string text;
  wait_for([&] {
    const bool ended = process.end().has_value();
    text += process.output();
    return ended;
  });
  return {*process.end(), text};
}

std::string until(RemoteProcess& process, const std::string& word) {
  std::string text;
  wait_for([&] {
    text += process.output();
    return text.find(word) != std::string::npos;
  });
  return text;
}

TEST_CASE("words are split at spaces outside of quotes", "[hosts]") {
  CHECK(split_words("ssh -o  BatchMode=yes").value() == Words{"ssh", "-o", "BatchMode=yes"});
  CHECK(split_words(" ssh -i 'my key' \"a 'b'\"c ''").value() ==
        Words{"ssh", "-i", "my key", "a 'b'c", ""});
  CHECK_THAT(split_words("ssh 'x").status().text(), Contains("a quote has no end"));
  CHECK_THAT(split_words("  ").status().text(), Contains("no program"));
  CHECK_THAT(split_words("''").status().text(), Contains("no program"));
}

TEST_CASE("quoted words are the same words for a shell", "[hosts]") {
  const std::string word = "a 'b' \"$(c)\" \\ `d` ;e\n";
  const auto process =
      RemoteProcess::start({"sh", "-c", "printf %s " + quote_word(word)}, "").value();
  CHECK(end_of(*process) == std::pair<std::string, std::string>("exit 0", word));
}

TEST_CASE("an agent gets its words and its identity in a file of its own", "[hosts]") {
  Host host(
      "for word; do echo \"<$word>\"; done; stat -c %a \"$2\" \"$(dirname \"$2\")\"; cat \"$2\"\n"
      "exit 7\n");
  const auto process = host.start();
  const auto [end, text] = end_of(*process);
  CHECK(end == "exit 7");
  CHECK_THAT(text, Contains("<--identity>\n<" + host.temporary().string() + "/troupe-agent-"));
  CHECK_THAT(text, Contains("<agent>\n<--advertise>\n<b>\n<--join>\n<10.0.0.1:7700>\n<--name>\n<b>"
                            "\n<--join-wait>\n<30s>\n<--devices>\n<cpu:3>\n<--metrics>\n"
                            "<127.0.0.1:0>\n<--quiet>\n600\n700\n-----BEGIN-----\nsecret\n"));
  CHECK(std::filesystem::is_empty(host.temporary()));
  host.agent().pages = true;
  host.agent().verbose = true;
  CHECK_THAT(remote_command(host.agent()), Contains("'--verbose'") && !Contains("'--metrics'"));
  host.agent().device = schemas::WorkerDevice::gpu;
  CHECK_THAT(remote_command(host.agent()), Contains("'--devices' 'gpu:0,1,2'"));
}

TEST_CASE("an agent gets the files of its pages", "[hosts]") {
  Host host(
      "while [ $# -gt 0 ]; do case $1 in --metrics-t*) echo \"$1\"; stat -c %a \"$2\"; "
      "cat \"$2\";; esac; shift; done\n");
  CHECK(end_of(*host.start()).second.empty());
  // Whatever a token looks like, it ends no file.
  host.files().pages_pem = "-----BEGIN KEY-----\nk\\n =\n";
  host.files().pages_token = "end";
  CHECK(end_of(*host.start()).second ==
        "--metrics-token\n600\nend\n--metrics-tls\n600\n-----BEGIN KEY-----\nk\\n =\n");
  CHECK(std::filesystem::is_empty(host.temporary()));
}

TEST_CASE("an agent is where ssh came to, but not on a loopback", "[hosts]") {
  Host host("echo \"at $5.\"\n");
  CHECK_THAT(end_of(*host.start("10.0.0.1 50000 10.0.0.2 22")).second, Contains("at 10.0.0.2."));
  CHECK_THAT(end_of(*host.start("fd77::1 50000 fd77::2 22")).second, Contains("at fd77::2."));
  CHECK_THAT(end_of(*host.start("127.0.0.1 50000 127.0.0.1 22")).second, Contains("at 10.0.0.1."));
  CHECK_THAT(end_of(*host.start("::1 50000 ::1 22")).second, Contains("at 10.0.0.1."));
}

TEST_CASE("without the program another one is taken, or none is there", "[hosts]") {
  Host host("echo \"the other\"\n");
  host.agent().fallback = host.agent().program;
  host.agent().program = "/nowhere/troupe";
  CHECK_THAT(end_of(*host.start()).second, Contains("the other"));
  host.agent().fallback = "";
  const auto [end, text] = end_of(*host.start());
  CHECK(end == "exit 127");
  CHECK_THAT(text, Contains("there is no program /nowhere/troupe here; --remote-troupe PATH"));
  CHECK(std::filesystem::is_empty(host.temporary()));
}

TEST_CASE("an agent ends with the input, and nothing is left", "[hosts]") {
  const std::string waits =
      "trap 'echo asked to end; exit 0' TERM; echo up\nwhile :; do sleep 0.05; done\n";
  Host host(waits);
  const auto process = host.start();
  until(*process, "up");
  CHECK_FALSE(std::filesystem::is_empty(host.temporary()));
  process->close_input();
  const auto [end, text] = end_of(*process);
  CHECK(end == "exit 0");
  CHECK_THAT(text, Contains("asked to end"));
  CHECK(std::filesystem::is_empty(host.temporary()));
}

TEST_CASE("nothing is left where nobody reads what the shell says", "[hosts]") {
  // Shells say of a program that it was killed: here into a pipe without a reader.
  Host host("trap 'kill -9 $$' TERM; echo up\nwhile :; do sleep 0.05; done\n");
  const auto process = host.start("", " 2>&1 | head -n 1");
  until(*process, "up");
  process->close_input();
  end_of(*process);
  wait_for([&] { return std::filesystem::is_empty(host.temporary()); });
}

TEST_CASE("a shell that is asked to end asks the agent", "[hosts]") {
  Host host("trap 'echo asked to end; exit 5' TERM; echo up\nwhile :; do sleep 0.05; done\n");
  const auto process = host.start();
  until(*process, "up");
  process->terminate();
  const auto [end, text] = end_of(*process);
  CHECK(end == "exit 5");
  CHECK_THAT(text, Contains("asked to end"));
  CHECK(std::filesystem::is_empty(host.temporary()));
}

}  // namespace
}  // namespace troupe::cluster
