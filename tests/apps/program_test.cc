// SPDX-License-Identifier: Apache-2.0
// The command line: exit codes, help, suggestions, and what goes to which stream.
#include "apps/program.h"

#include <fmt/core.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <filesystem>
#include <fstream>
#include <new>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "apps/coordinator_call.h"
#include "apps/host_text.h"
#include "apps/metrics_options.h"
#include "apps/progress.h"
#include "gpu/inventory.h"
#include "monitoring/families.h"
#include "tests/apps/run_words.h"
#include "tests/support/catch.h"
#include "tests/support/test_folder.h"

namespace troupe::apps {
namespace {

using Catch::Contains;
using Catch::Matchers::StartsWith;

const std::string kExample = std::string(TROUPE_SOURCE_DIR) + "/examples/fashion-lenet.toml";

TEST_CASE("help goes to standard output and leads with examples", "[program]") {
  for (const auto& words : std::vector<std::vector<std::string>>{
           {}, {"help"}, {"--help"}, {"data", "--help"}, {"help", "data", "pack", "idx"}}) {
    const Run result = run(words);
    CHECK(result.code == 0);
    CHECK(result.err.empty());
    CHECK_THAT(result.out, Contains("Usage"));
  }
  const std::string help = run({"help", "data", "pack", "idx"}).out;
  CHECK(help.find("Examples:\n  troupe data pack idx") < help.find("Usage: troupe data pack idx"));
  CHECK_THAT(run({}).out, Contains("Check job files") && !Contains("JOB.toml --set"));
}

TEST_CASE("a default stands in brackets in the help", "[program]") {
  CHECK_THAT(run({"help", "agent"}).out,
             Contains("cpu:N,gpu:INDEX,... [cpu:1]") && !Contains("...=cpu:1"));
}

TEST_CASE("data that cannot be written is no success", "[program]") {
  std::ostream nowhere(nullptr);
  std::ostringstream err;
  Console console(nowhere, err);
  Context context(console, {});
  CHECK(run_program({"version"}, context) == ExitCode::no_resources);
  CHECK(err.str() == "error: standard output cannot be written\n");
}

TEST_CASE("bad usage is exit 2 with the likely word", "[program]") {
  const Run verb = run({"dta", "check"});
  CHECK(verb.code == 2);
  CHECK(verb.out.empty());
  CHECK(verb.err == "error: unknown command 'dta'; did you mean 'data'?\nTry: troupe help\n");
  CHECK(run({"data", "pak"}).err ==
        "error: unknown command 'pak'; did you mean 'pack'?\nTry: troupe help data\n");
  // The family was left out.
  CHECK(run({"stop", "x"}).err ==
        "error: unknown command 'stop'; did you mean 'job stop'?\nTry: troupe help\n");
  CHECK_THAT(run({"list"}).err,
             Contains("'ca list' or 'token list' or 'model list' or 'job list'?"));
  CHECK_THAT(run({"data", "check", "f.rec", "--decod"}).err,
             StartsWith("error: unknown option '--decod'; did you mean '--decode'?\n"));
  CHECK_THAT(run({"run", "job.toml", "--epochs", "3"}).err,
             StartsWith("error: unknown option '--epochs'; keys of the job file are given by --set "
                        "SECTION.KEY=VALUE\n"));
  CHECK_THAT(run({"--set", "x=1", "run", "job.toml"}).err,
             StartsWith("error: option '--set' stands before the command: it belongs behind "
                        "'troupe run'\n"));
  CHECK_THAT(run({"version", "now"}).err, StartsWith("error: unexpected argument 'now'\n"));
  CHECK_THAT(run({"config", "check"}).err, StartsWith("error: JOB.toml is required"));
  for (const auto& words : std::vector<std::vector<std::string>>{{"data"},
                                                                 {"--nonsense"},
                                                                 {"data", "pack", "idx"},
                                                                 {"-"},
                                                                 {""},
                                                                 {"help", "nope"},
                                                                 {"data", "help", "nope"},
                                                                 {"nope", "--help"}}) {
    CHECK(run(words).code == 2);
  }
}

TEST_CASE("an empty value is as wrong as none, wherever it stands", "[program]") {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"run", kExample, "--trace", ""}, "--trace"},
      {{"run", kExample, "--trace="}, "--trace"},
      {{"--token", "", "job", "list"}, "--token"},
      {{"coordinator", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--state", "x",
        "--data-root", ""},
       "--data-root"},
      {{"ca", "init", "", "--cluster", "lab"}, "DIR"}};
  for (const auto& [words, name] : cases) {
    const Run refused = run(words);
    CHECK(refused.code == 2);
    CHECK(refused.err == "error: " + name + ": the value is empty\n");
  }
}

TEST_CASE("addresses are checked with the command line", "[program]") {
  const Run none = run({"job", "list"});
  CHECK(none.code == 2);
  CHECK_THAT(none.err, Contains("which coordinator?"));
  const Run bad = run({"--coordinator", "here", "job", "list"});
  CHECK(bad.code == 2);
  CHECK_THAT(bad.err, Contains("--coordinator") && Contains("'here' is not an address"));
  const Run empty = run({"--coordinator=", "job", "list"});
  CHECK(empty.code == 2);
  CHECK_THAT(empty.err, StartsWith("error: --coordinator: '' is not an address"));
  CHECK(run({"coordinator", "--listen", "1:2:3", "--metrics", ":0", "--state", "x"}).code == 2);
  const Run far =
      run({"coordinator", "--state", "x", "--listen", "0.0.0.0:1", "--metrics", "127.0.0.1:0"});
  CHECK(far.code == 8);
  CHECK_THAT(far.err, StartsWith("error: --listen: '0.0.0.0:1' is not a loopback"));
  const Run same = run(
      {"coordinator", "--listen", "localhost:7700", "--metrics", "127.0.0.1:7700", "--state", "x"});
  CHECK(same.code == 2);
  CHECK(same.err ==
        "error: --listen and --metrics are both 127.0.0.1:7700; each needs its own port\n");
  const Run join = run({"agent", "--name", "a", "--join", "0.0.0.0:1"});
  CHECK(join.code == 8);
  CHECK_THAT(join.err, StartsWith("error: --join: '0.0.0.0:1' is not a loopback"));
  const std::vector<std::vector<std::string>> neither = {
      {"agent", "--name", "a", "--join", "127.0.0.1:1", "--metrics", "10.1:1"},
      {"agent", "--name", "a", "--join", "127.0.0.1:1", "--advertise", "10.1"},
      {"agent", "--name", "a", "--join", "10.1:1"},
      {"run", "x.toml", "--metrics", "10.1:1"}};
  for (const std::vector<std::string>& words : neither) {
    const Run host = run(words);
    CHECK(host.code == 2);
    CHECK_THAT(host.err, Contains("'10.1' is neither"));
  }
  const Run ports = run({"agent", "--name", "a", "--join", "127.0.0.1:1", "--ports", "9-8"});
  CHECK(ports.code == 2);
  CHECK_THAT(ports.err, Contains("--ports") && Contains("'9-8' is no range of ports"));
  CHECK_THAT(run({"agent", "--name", "a", "--join", "127.0.0.1:1", "--metrics-token", "none"}).err,
             StartsWith("error: --metrics-token: none: "));
  CHECK_THAT(run({"agent", "--name", "a", "--join", "127.0.0.1:1", "--metrics-tls", "none"}).err,
             StartsWith("error: --metrics-tls: none: "));
  for (const char* other : {"192.0.2.1:7700", "head:7700"}) {
    const Run person = run({"--coordinator", other, "job", "list"});
    CHECK(person.code == 8);
    CHECK(person.err == fmt::format("error: --coordinator {}: --identity FILE (or TROUPE_IDENTITY) "
                                    "is missing: a coordinator beyond the loopback wants a "
                                    "certificate\n",
                                    other));
  }
  const Run absent = run({"job", "status", "x", "--coordinator", "127.0.0.1:1"});
  CHECK(absent.code == 4);
  CHECK_THAT(absent.err, Contains("127.0.0.1:1"));
}

/// A port of 127.0.0.1 that somebody listens at.
class TakenPort {
 public:
  TakenPort() : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof name;
    auto* any = reinterpret_cast<sockaddr*>(&name);
    REQUIRE(::bind(socket_, any, size) == 0);
    REQUIRE(::listen(socket_, 1) == 0);
    REQUIRE(::getsockname(socket_, any, &size) == 0);
    number = std::to_string(ntohs(name.sin_port));
  }
  ~TakenPort() { ::close(socket_); }
  TakenPort(const TakenPort&) = delete;
  TakenPort& operator=(const TakenPort&) = delete;
  std::string number;

 private:
  int socket_;
};

TEST_CASE("where an agent's page cannot be, the option that was given is named", "[program]") {
  const TestFolder folder("program-test-page");
  const std::string ca = (folder.path() / "ca").string();
  const std::string identity = (folder.path() / "a.pem").string();
  REQUIRE(run({"ca", "init", ca, "--cluster", "lab"}).code == 0);
  REQUIRE(run({"ca", "issue", ca, "agent", "a", "--out", identity}).code == 0);
  const auto agent = [](std::vector<std::string> more) {
    const std::vector<std::string> words = {"agent",       "--name",      "a",  "--join",
                                            "127.0.0.1:1", "--join-wait", "1ms"};
    more.insert(more.begin(), words.begin(), words.end());
    return run(more);
  };
  CHECK_THAT(agent({"--identity", identity, "--advertise", "192.0.2.1"}).err,
             Contains("error: --advertise 192.0.2.1: "));  // an address of no machine
  const TakenPort taken;
  const std::string ports = taken.number + "-" + taken.number;
  const Run full = agent({"--ports", ports});
  CHECK(full.code == 7);
  CHECK_THAT(full.err, Contains("error: --ports " + ports + ": all ports"));
  const std::string page = "127.0.0.1:" + taken.number;
  CHECK_THAT(agent({"--metrics", page}).err, Contains("error: --metrics " + page + ": "));
  // An address in brackets is one.
  for (const char* host : {"::1", "[::1]"}) {
    CHECK_THAT(agent({"--advertise", host, "--metrics", "127.0.0.1:0"}).err,
               Contains("127.0.0.1:1") && !Contains("--advertise"));
  }
}

TEST_CASE("a coordinator that cannot start leaves no folder behind", "[program]") {
  const TestFolder folder("program-test-state");
  const TakenPort taken;
  const auto start = [&](const std::filesystem::path& state) {
    return run({"coordinator", "--listen", "127.0.0.1:" + taken.number, "--metrics", "127.0.0.1:0",
                "--state", state.string()});
  };
  CHECK(start(folder.path() / "state").code == 7);
  CHECK_FALSE(std::filesystem::exists(folder.path() / "state"));
  std::filesystem::create_directories(folder.path() / "own");
  CHECK(start(folder.path() / "own").code == 7);
  CHECK(std::filesystem::exists(folder.path() / "own"));
}

TEST_CASE("pages on all addresses are found at the host that a coordinator listens at",
          "[program]") {
  const base::Address all{"0.0.0.0", 7701}, listen{"10.0.0.7", 7700};
  CHECK(pages_host({"10.0.0.8", 7701}, listen) == "10.0.0.8");
  CHECK(pages_host(all, listen) == "10.0.0.7");
  CHECK(pages_host({"::", 7701}, {"fd77::2", 1}) == "fd77::2");
  const std::string own = pages_host(all, all);
  CHECK_FALSE(own.empty());
  CHECK(own != "0.0.0.0");
}

TEST_CASE("an agent of another machine says where it is", "[program]") {
  CHECK(join_words("127.0.0.1:7700", false) ==
        "troupe agent --join 127.0.0.1:7700 --name NAME --devices cpu:2");
  CHECK(join_words("[::1]:7700", true) ==
        "troupe agent --join [::1]:7700 --name NAME --devices cpu:2 --identity FILE");
  CHECK(join_words("head:7700", true) ==
        "troupe agent --join head:7700 --name NAME --advertise HOST --devices cpu:2 --identity "
        "FILE");
  CHECK(advertise_warning("localhost:7700", "127.0.0.1").empty());
  CHECK(advertise_warning("192.0.2.2:7700", "192.0.2.3").empty());
  CHECK(advertise_warning("192.0.2.2:7700", "node1").empty());
  CHECK(advertise_warning("head:7700", "127.0.0.1") ==
        "--advertise 127.0.0.1: no other machine reaches this one there, and --join head:7700 may "
        "be on another machine; say this machine's name or address: --advertise HOST");
}

TEST_CASE("errors name the variable that a value comes from", "[program]") {
  const auto run_with = [](const base::Environment& environment, std::vector<std::string> more) {
    std::ostringstream out, err;
    Console console(out, err);
    Context context(console, environment);
    more.insert(more.begin(), {"--coordinator", "127.0.0.1:1"});
    const ExitCode code = run_program(more, context);
    return Run{static_cast<int>(code), out.str(), err.str()};
  };
  base::Environment environment;
  environment.identity = "nofile";
  CHECK_THAT(run_with(environment, {"job", "list"}).err,
             StartsWith("error: TROUPE_IDENTITY: nofile: "));
  CHECK_THAT(run_with(environment, {"--identity", "other", "job", "list"}).err,
             StartsWith("error: --identity: other: "));
  environment = {};
  environment.token_file = "nofile";
  CHECK_THAT(run_with(environment, {"job", "list"}).err,
             StartsWith("error: TROUPE_TOKEN_FILE: nofile: "));
  CHECK_THAT(run_with(environment, {"--token", "/", "job", "list"}).err,
             StartsWith("error: --token: /: is a folder, not a file"));
  environment = {};
  environment.log_level = "loud";
  const Run loud = run_with(environment, {"version"});
  CHECK(loud.code == 0);
  CHECK(loud.err ==
        "warning: TROUPE_LOG_LEVEL: 'loud' is no level, so it is info: debug, info, warn or "
        "error\n");
  CHECK(run_with(environment, {"-q", "version"}).err.empty());
  environment.log_level = "info";
  CHECK(run_with(environment, {"version"}).err.empty());
}

TEST_CASE("the words that ask again are those that asked", "[program]") {
  std::ostringstream out, err;
  Console console(out, err);
  base::Environment environment;
  environment.token_file = "/home/ann/t";
  Context context(console, environment);
  context.coordinator = "[fd77::1]:7700";
  context.identity = "ann's key.pem";
  context.token_file = "/home/ann/t";  // the environment's: still there
  CHECK(program_words(context) ==
        "troupe --coordinator '[fd77::1]:7700' --identity 'ann'\\''s key.pem'");
  context.coordinator = "node1:7700";
  context.identity.clear();
  context.token_file = "ann.token";
  CHECK(program_words(context) == "troupe --coordinator node1:7700 --token ann.token");
}

TEST_CASE("an agent that shall offer GPUs which are not there says so", "[program]") {
  const std::string& problem = gpu::inventory().problem;
  const bool none = !problem.empty();
  for (const char* devices : {"gpu:all", "gpu:0,63", "cpu:2,gpu:63"}) {
    if (!none && std::string_view(devices) == "gpu:all") continue;
    const Run refused =
        run({"agent", "--join", "127.0.0.1:1", "--name", "a", "--devices", devices});
    CHECK(refused.code == 7);
    CHECK_THAT(refused.err,
               StartsWith(fmt::format("error: --devices {}: this machine has no GPU ", devices)) &&
                   Contains(none ? problem : "63; it has GPU 0: "));
  }
}

TEST_CASE("names, devices and times are checked with the command line", "[program]") {
  for (const auto& [option, value] :
       std::vector<std::pair<std::string, std::string>>{{"--name", "../x"},
                                                        {"--name", ""},
                                                        {"--name", "two\nlines"},
                                                        {"--name", std::string(65, 'a')},
                                                        {"--devices", "cpu:0"},
                                                        {"--devices", "gpu:64"},
                                                        {"--devices", "cpu:2,3"},
                                                        {"--devices", "cpu:99999999999999999999"},
                                                        {"--join-wait", "soon"},
                                                        {"--join-wait", "1e30h"}}) {
    INFO(option << " " << value);
    std::vector<std::string> words = {"agent", "--join", "127.0.0.1:1"};
    if (option != "--name") words.insert(words.end(), {"--name", "a"});
    words.insert(words.end(), {option, value});
    const Run bad = run(words);
    CHECK(bad.code == 2);
    CHECK_THAT(bad.err, StartsWith("error: " + option + ": "));
    CHECK(std::count(bad.err.begin(), bad.err.end(), '\n') == 2);  // the second: "Try: ..."
  }
}

TEST_CASE("an error is one line whatever is in a name, and a flood of them is cut", "[program]") {
  CHECK(run({"data", "check", "no\nsuch\033[2Jfile"}).err ==
        "error: no?such?[2Jfile: cannot open: No such file or directory\n");
  const auto path = std::filesystem::temp_directory_path() / "troupe-program-test.toml";
  std::ofstream file(path);
  for (int i = 0; i < 5'000; ++i) file << "key" << i << " = 1\n";
  file.close();
  const std::string said = run({"config", "check", path.string()}).err;
  std::filesystem::remove(path);
  CHECK(std::count(said.begin(), said.end(), '\n') == 101);
  CHECK_THAT(said, Contains("5003 errors, the first 100 are shown; this is no job"));
}

TEST_CASE("config check says what a job is, or all that is wrong with it", "[program]") {
  const Run good =
      run({"config", "check", kExample, "--set", "workers.devices=2", "--set", "servers.shards=3"});
  CHECK(good.code == 0);
  CHECK(good.err.empty());
  CHECK_THAT(good.out, Contains("valid: job 'fashion-lenet', lenet on 2 machines x 2 workers, "
                                "3 parameter servers, 5 epochs\n"));
  CHECK_THAT(run({"config", "check", kExample, "--set", "workers.machines=1", "--set",
                  "workers.devices=1", "--set", "servers.shards=1", "--set", "train.epochs=1"})
                 .out,
             Contains("on 1 machine x 1 worker, 1 parameter server, 1 epoch\n"));
  const Run bad = run({"config", "check", kExample, "--set", "data.batch=12B", "--set", "a.b=1"});
  CHECK(bad.code == 3);
  CHECK(bad.out.empty());
  CHECK(bad.err ==
        "--set data.batch=12B: error: data.batch: expected integer >= 1, got \"12B\"\n"
        "--set a.b=1: error: a.b: unknown key\n"
        "2 errors; this is no job that can run\n");
  for (const char* setting : {"train.epochs", "=2", ""}) {
    const Run unnamed = run({"config", "check", kExample, "--set", setting});
    CHECK(unnamed.code == 2);
    CHECK_THAT(unnamed.err, StartsWith(fmt::format(
                                "error: --set: expected section.key=value, got '{}'\n", setting)));
  }
  const Run missing = run({"config", "check", "/nowhere/job.toml"});
  CHECK(missing.code == 3);
  CHECK_THAT(missing.err, Contains("/nowhere/job.toml"));
}

TEST_CASE("config check warns of settings that do nothing, and the job is valid", "[program]") {
  const Run warned = run({"config", "check", kExample, "--set", "numerics.tf32=true"});
  CHECK(warned.code == 0);
  CHECK_THAT(warned.out, Contains("valid: job 'fashion-lenet'"));
  CHECK(warned.err ==
        "--set numerics.tf32=true: warning: numerics.tf32: is of GPUs, and the workers are on "
        "CPUs: it does nothing\n");
}

TEST_CASE("config check shows a symbol's path, and no terminal obeys it", "[program]") {
  const auto path = std::filesystem::temp_directory_path() / "troupe-program-test.toml";
  std::ofstream(path) << "name = \"x\"\nmodel = { symbol = \"net\\u001b[2J\\n.json\" }\n"
                      << "data = { train = \"t.rec\" }\n";
  const Run shown = run({"config", "check", path.string()});
  CHECK_THAT(shown.out, Contains("job 'x', net?[2J?.json on 1 machine"));
  CHECK_THAT(run({"config", "check", path.string(), "--json"}).out,
             Contains("net\\u001b[2J\\n.json"));
  std::filesystem::remove(path);
}

TEST_CASE("config check knows the parameters of built-in networks", "[program]") {
  const auto path = std::filesystem::temp_directory_path() / "troupe-program-test-keys.toml";
  std::filesystem::copy_file(kExample, path, std::filesystem::copy_options::overwrite_existing);
  std::ofstream(path, std::ios::app) << "\n[[train.keys]]\nmatch = \"fc*\"\nlr_mult = 0.5\n";
  CHECK(run({"config", "check", path.string()}).code == 0);
  std::ofstream(path, std::ios::app) << "\n[[train.keys]]\nmatch = \"cnov*\"\nlr_mult = 0.0\n";
  const Run bad = run({"config", "check", path.string()});
  std::filesystem::remove(path);
  CHECK(bad.code == 3);
  CHECK_THAT(bad.err, Contains("train.keys: 'cnov*' matches no parameter of the network ("));
}

TEST_CASE("data pack replaces nothing without --force", "[program]") {
  namespace fs = std::filesystem;
  const fs::path out = fs::temp_directory_path() / "troupe-program-pack";
  fs::remove_all(out);
  fs::create_directory(out);
  const auto pack = [&out](std::vector<std::string> how) {
    std::vector<std::string> words = {"data", "pack"};
    words.insert(words.end(), how.begin(), how.end());
    words.insert(words.end(), {"--out", out.string()});
    return run(words);
  };
  std::ofstream(out / "classes.txt") << "mine";
  const Run images = pack({"images", "--train", "/nowhere"});
  CHECK(images.code == 6);
  CHECK_THAT(images.err, Contains("classes.txt: exists; --force replaces it"));
  std::ofstream(out / "test.idx") << "0\t0\n";
  CHECK(pack({"generated", "--train", "1", "--test", "0"}).code == 6);
  CHECK(pack({"generated", "--train", "1", "--test", "0", "--force"}).code == 0);
  CHECK_FALSE(fs::exists(out / "test.idx"));
  CHECK_FALSE(fs::exists(out / "classes.txt"));
  const Run large = pack({"generated", "--train", "1", "--image", "5,8192,8192", "--force"});
  CHECK(large.code != 0);
  CHECK_THAT(large.err, Contains("335544320 bytes are more than"));
  fs::remove_all(out);
}

TEST_CASE("data check counts records, or names the first damage and exits 3", "[program]") {
  const auto path = std::filesystem::temp_directory_path() / "troupe-program-test.rec";
  std::ofstream(path, std::ios::binary) << "these bytes are no records at all";
  const Run bad = run({"data", "check", path.string()});
  CHECK(bad.code == 3);
  CHECK_THAT(bad.err, StartsWith("error: ") && Contains(path.string()) && Contains("offset 0"));
  std::filesystem::remove(path);
  CHECK(run({"data", "check", path.string()}).code == 5);
  const auto out = path.parent_path() / "troupe-program-test";
  CHECK(
      run({"data", "pack", "fashion-mnist", "--source", "/nowhere", "--out", out.string()}).code ==
      5);
  CHECK_FALSE(std::filesystem::exists(out));
  // A link to a disk that is not mounted is the user's.
  std::filesystem::create_symlink("/nowhere/else", out);
  CHECK(
      run({"data", "pack", "fashion-mnist", "--source", "/nowhere", "--out", out.string()}).code ==
      6);
  CHECK(std::filesystem::is_symlink(out));
  std::filesystem::remove(out);
}

TEST_CASE("metrics names every family", "[program]") {
  const Run result = run({"metrics"});
  CHECK(result.code == 0);
  CHECK_THAT(result.out, Contains("troupe_kv_requests_total{level,op,result} counter Pushes"));
  CHECK(std::count(result.out.begin(), result.out.end(), '\n') ==
        static_cast<std::ptrdiff_t>(monitoring::families().size()));
}

TEST_CASE("version is a line, and what of GPUs can be used", "[program]") {
  const std::string line = run({"--version"}).out;
  CHECK_THAT(line, Catch::Matchers::Matches("troupe [0-9]+\\.[0-9]+\\.[0-9]+\n"));
  CHECK(run({"--version"}).code == 0);
  const Run version = run({"version"});
  CHECK(version.code == 0);
  CHECK_THAT(version.out, StartsWith(line) && (Contains("\nno GPU: ") || Contains("\ngpu:0 ")));
}

TEST_CASE("help and documentation list every exit code", "[program]") {
  std::ifstream file(std::string(TROUPE_SOURCE_DIR) + "/docs/exit-codes.md");
  const std::string document{std::istreambuf_iterator<char>(file), {}};
  const std::string help = run({"help"}).out;
  for (const ExitCodeInfo& row : exit_code_table()) {
    const std::string number = std::to_string(static_cast<int>(row.code));
    const std::string_view meaning = row.meaning;
    CHECK_THAT(document, Contains(fmt::format("| {} | {} |\n", number, meaning)));
    CHECK_THAT(help, Contains(fmt::format("\n  {:<4} {}\n", number, meaning)));
  }
  CHECK_THAT(run({"help", "data"}).out, !Contains("Exit codes"));
}

TEST_CASE("options of a wrong value are named", "[program]") {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"--image", "a,b,c"}, {"--image", "3,224"}, {"--image", "3,224,224,1"},
      {"--image", ""},      {"--train", "0"},     {"--train", "99999999999"},
      {"--train", "010"},   {"--test", "x"},      {"--classes", "0"},
      {"--seed", "-3"},     {"--seed", "007"},    {"--seed", "18446744073709551616"}};
  for (const auto& [option, value] : wrong) {
    INFO(option << " " << value);
    const Run bad = run({"data", "pack", "generated", "--out", "/nowhere/x", option, value});
    CHECK(bad.code == 2);
    CHECK_THAT(bad.err, Contains(option) && Contains(value));
  }
  CHECK_THAT(run({"help", "data", "pack", "generated"}).out, Contains("C,H,W [3,224,224]"));
  CHECK_THAT(run({"help", "model", "inspect"}).out, !Contains("{false}"));
}

TEST_CASE("errors map to the documented exit codes", "[program]") {
  CHECK(exit_code_of(base::Errc::unavailable) == ExitCode::unreachable);
  CHECK(exit_code_of(base::Errc::io_error) == ExitCode::unreachable);
  CHECK(exit_code_of(base::Errc::data_loss) == ExitCode::bad_input);
  CHECK(exit_code_of(base::Errc::not_found) == ExitCode::not_found);
  CHECK(exit_code_of(base::Errc::resource_exhausted) == ExitCode::no_resources);
  CHECK(exit_code_of(base::Errc::abandoned) == ExitCode::failed);
  CHECK(exit_code_of(base::Errc::internal) == ExitCode::internal);
}

ExitCode end_after(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (...) {
    return current_exception_end().first;
  }
}

TEST_CASE("an exception nobody catches is a defect unless memory or threads ended", "[program]") {
  const std::error_code no_thread(EAGAIN, std::generic_category());
  CHECK(end_after(std::make_exception_ptr(std::runtime_error("x"))) == ExitCode::internal);
  CHECK(end_after(std::make_exception_ptr(1)) == ExitCode::internal);
  CHECK(end_after(std::make_exception_ptr(std::bad_alloc())) == ExitCode::no_resources);
  CHECK(end_after(std::make_exception_ptr(std::system_error(no_thread))) == ExitCode::no_resources);
  CHECK(current_exception_end().first == ExitCode::internal);
  CHECK(!memory_used_up());
  CHECK_THROWS_AS(fail_allocation(), std::bad_alloc);
  CHECK(memory_used_up());
  CHECK(current_exception_end().first == ExitCode::no_resources);
}

TEST_CASE("progress is one line with what is known", "[progress]") {
  CHECK(format_progress({1200, 9000, 0.4123, {}, 3210.4, 41}) ==
        "step 1200/9000 13% | loss 0.412 | 3,210 samples/s | eta 0:41");
  CHECK(format_progress({0, 0, {}, {}, 0, {}}) == "step 0");
  CHECK(format_progress({8999, 9000, {}, 0.91234, 0, {}}) ==
        "step 8999/9000 99% | test accuracy 0.9123");
}

TEST_CASE("a terminal's line moves at most ten times a second and is cut to its width",
          "[progress]") {
  std::ostringstream out, err;
  Console console(out, err, {.terminal = true, .color = false, .width = 9});
  base::ManualClock clock;
  ProgressDisplay display(console, clock);
  display.show({1, 100, {}, {}, 0, {}});
  display.show({2, 100, {}, {}, 0, {}});
  clock.advance_ms(100);
  display.show({3, 100, {}, {}, 0, {}});
  display.show({100, 100, {}, {}, 0, {}});
  console.note("done");
  CHECK(err.str() == "\r\033[Kstep 1/1\r\033[Kstep 3/1\r\033[Kstep 100\r\033[Kdone\n");
  CHECK(out.str().empty());
}

}  // namespace
}  // namespace troupe::apps
