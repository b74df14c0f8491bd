// SPDX-License-Identifier: Apache-2.0
// What the verbs of models print, and which words they refuse.
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>

#include <nlohmann/json.hpp>

#include "gpu/inventory.h"
#include "ops/table.h"
#include "symbol/kernel_choices.h"
#include "symbol/networks/networks.h"
#include "tests/apps/run_words.h"
#include "tests/support/catch.h"
#include "tests/support/job_files.h"
#include "tests/support/test_folder.h"

namespace troupe::apps {
namespace {

using Catch::Contains;
using Catch::Matchers::StartsWith;

TEST_CASE("model inspect shows layers, parameters, memory and reorders", "[program]") {
  const Run lenet = run({"model", "inspect", "lenet", "--classes", "7"});
  CHECK(lenet.code == 0);
  // The layout is the machine's.
  const std::regex conv2(
      R"(\nconv2    convolution      \(32, 50, 8, 8\)    \S+ +25,050 +51,200,000 +\S+\n)");
  CHECK(std::regex_search(lenet.out, conv2));
  CHECK_THAT(lenet.out, Contains("fc2      fully_connected  (32, 7)"));
  CHECK_THAT(lenet.out, Contains("\nparameters      429,577\n") && Contains("planned memory"));
  CHECK_THAT(lenet.out, !Contains(" dense -> ") && !Contains("reorders        0\n"));
  CHECK_THAT(run({"model", "inspect", "lenet", "--why"}).out, Contains(" dense -> "));
  const Run dense = run({"model", "inspect", "tiny-bn", "--dense", "--reference"});
  CHECK_THAT(dense.out, Contains("reorders        0\n") && !Contains("onednn"));
  CHECK_THAT(run({"model", "inspect", "lenet", "--dot"}).out, StartsWith("digraph"));
  CHECK(run({"model", "inspect", "lenet", "--dot", "--kernels", "nofile.json"}).code == 2);
  CHECK(run({"model", "inspect", "lenet", "--dot", "--dtype", "bf16"}).code == 2);
}

TEST_CASE("model inspect says why kernels declined, and knows a network's own image") {
  const Run asked = run({"model", "inspect", "lenet", "--why"});
  CHECK(asked.code == 0);
  CHECK_THAT(asked.out, Contains("pool1") && Contains("  onednn declined: "));
  CHECK_THAT(asked.out, Contains("multiply-adds a sample"));
  CHECK_THAT(asked.out, Contains("\nbackward pass ") && Contains(" convolution_backward_weights "));
  const Run plain = run({"model", "inspect", "lenet"});
  CHECK_THAT(plain.out, !Contains(" declined: ") && !Contains("backward"));
  const Run own = run({"model", "inspect", "mobilenet-v2", "--batch", "1"});
  CHECK_THAT(own.out, Contains("(1, 32, 112, 112)") && Contains("(1, 1000)"));
}

TEST_CASE("model inspect prints what passes made of a network, and leaves Winograd's form out") {
  const std::vector<std::string> inspect = {"model",   "inspect", "resnet18", "--input",
                                            "3,64,64", "--batch", "2"};
  const auto with = [&inspect](const char* flag) {
    std::vector<std::string> words = inspect;
    words.emplace_back(flag);
    return run(words);
  };
  const Run passes = with("--print-passes");
  CHECK(passes.code == 0);
  CHECK_THAT(passes.out, StartsWith("training: arena ") && Contains("\nprediction: arena "));
  CHECK_THAT(passes.out, Contains("  > pool1 = pooling(") && Contains("      offer  reference "));
  CHECK_THAT(passes.out, Contains(" ms, reorders around it "));
  CHECK_THAT(passes.out, Contains("simd:winograd"));
  std::vector<std::string> direct = inspect;
  direct.insert(direct.end(), {"--print-passes", "--no-winograd"});
  CHECK_THAT(run(direct).out, Contains("  > pool1 = pooling(") && !Contains("simd:winograd"));
  std::vector<std::string> both = inspect;
  both.insert(both.end(), {"--print-passes", "--json"});
  CHECK(run(both).code == 2);
}

TEST_CASE("model inspect names what a file of weights holds") {
  const Run json = run({"model", "inspect", "tiny-bn", "--json"});
  REQUIRE(json.code == 0);
  std::map<std::string, std::string> tensors;
  const auto document = nlohmann::json::parse(json.out);
  for (const auto& layer : document.at("layers")) {
    for (const auto& tensor : layer.at("tensors")) {
      CHECK(tensors.emplace(tensor.at("name"), tensor.at("shape").dump()).second);
    }
  }
  const ops::OpTable table = ops::OpTable::build();
  const symbol::Symbol network = symbol::make_network(table, "tiny-bn").value();
  std::vector<std::string> expected = network.list_parameters();
  const std::vector<std::string> states = network.list_auxiliary_states();
  CHECK_FALSE(states.empty());
  expected.insert(expected.end(), states.begin(), states.end());
  CHECK(tensors.size() == expected.size());
  for (const std::string& name : expected) CHECK(tensors.contains(name));
}

TEST_CASE("model inspect plans memory in each of the ways to share it") {
  double last = 1e30;
  for (const char* mode : {"none", "in-place", "both"}) {
    const Run json = run({"model", "inspect", "resnet18", "--input", "3,64,64", "--recompute",
                          "none", "--memory", mode, "--json"});
    REQUIRE(json.code == 0);
    const auto bytes = nlohmann::json::parse(json.out).at("train_bytes").get<double>();
    CHECK(bytes < last);
    last = bytes;
  }
  CHECK(run({"model", "inspect", "lenet", "--memory", "all"}).code == 2);
}

TEST_CASE("model inspect says what is recomputed, and which budget is too small") {
  const auto with = [](std::initializer_list<const char*> words) {
    std::vector<std::string> all = {"model", "inspect", "resnet18", "--input", "3,64,64"};
    all.insert(all.end(), words.begin(), words.end());
    return run(all);
  };
  CHECK_THAT(with({}).out, Contains("\nrecomputed      ") && Contains(" % of its time by rule"));
  CHECK_THAT(with({"--recompute", "none"}).out, !Contains("\nrecomputed"));
  CHECK_THAT(with({"--recompute", "sqrt"}).out, Contains("\nrecomputed      "));
  CHECK_THAT(with({"--budget", "100g"}).out, !Contains("\nrecomputed"));
  const Run small = with({"--budget", "1k"});
  CHECK(small.code != 0);
  CHECK_THAT(small.err,
             Contains("resnet18") && Contains("--batch 32") && Contains("budget of 1.0 KiB"));
  CHECK(small.code == 7);
  CHECK(with({"--budget", "0", "--sub-batch", "0"}).out == with({}).out);
  CHECK(with({"--budget", "much"}).code == 2);
  CHECK(with({"--recompute", "all"}).code == 2);
  CHECK(with({"--budget", "1g", "--recompute", "sqrt"}).code == 2);
}

TEST_CASE("model inspect shows a network that no machine can hold, and takes no memory for it") {
  const auto resident_most = [] {  // KiB
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  const auto before = resident_most();
  const Run huge = run({"model", "inspect", "lenet", "--classes", "33554432"});
  INFO(huge.err);
  CHECK(huge.code == 0);
  // 63 GiB of them, and as much of gradients: 501 for each class.
  CHECK_THAT(huge.out, Contains("\nparameters      16,811,196,502\n"));
  // A head that is no loss has a gradient that somebody gives.
  const TestFolder folder("model-verbs-test-inspect");
  const std::string path = (folder.path() / "wide.json").string();
  std::ofstream(path) << R"({"nodes": [
    {"op": "null", "name": "data", "inputs": []},
    {"op": "null", "name": "w", "inputs": []},
    {"op": "null", "name": "b", "inputs": []},
    {"op": "FullyConnected", "name": "fc", "attrs": {"num_hidden": "67108864"},
     "inputs": [[0, 0, 0], [1, 0, 0], [2, 0, 0]]}],
    "arg_nodes": [0, 1, 2], "heads": [[3, 0, 0]]})";
  const Run wide = run({"model", "inspect", path.c_str(), "--input", "8"});
  INFO(wide.err);
  CHECK(wide.code == 0);
  CHECK_THAT(wide.out, Contains("(32, 67108864)"));
  CHECK(resident_most() - before < 1024 * 1024);
}

TEST_CASE("model inspect shows networks with parameters that have no gradient") {
  const TestFolder folder("model-verbs-test-frozen");
  const std::string path = (folder.path() / "frozen.json").string();
  std::ofstream(path) << R"({"nodes": [
    {"op": "null", "name": "data", "inputs": []},
    {"op": "null", "name": "w", "inputs": []},
    {"op": "FullyConnected", "name": "fc", "attrs": {"num_hidden": "4", "no_bias": "True"},
     "inputs": [[0, 0, 0], [1, 0, 0]]},
    {"op": "BlockGrad", "name": "block", "inputs": [[2, 0, 0]]},
    {"op": "null", "name": "v", "inputs": []},
    {"op": "FullyConnected", "name": "out", "attrs": {"num_hidden": "3", "no_bias": "True"},
     "inputs": [[3, 0, 0], [4, 0, 0]]},
    {"op": "null", "name": "label", "inputs": []},
    {"op": "SoftmaxOutput", "name": "softmax", "inputs": [[5, 0, 0], [6, 0, 0]]}],
    "arg_nodes": [0, 1, 4, 6], "heads": [[7, 0, 0]]})";
  const Run shown = run({"model", "inspect", path.c_str(), "--input", "8"});
  INFO(shown.err);
  CHECK(shown.code == 0);
  CHECK_THAT(shown.out, Contains("\nparameters      44\n"));      // 4 x 8 and 3 x 4
  const std::string plain = (folder.path() / "frozen").string();  // a file all the same
  std::filesystem::copy_file(path, plain);
  CHECK(run({"model", "inspect", plain.c_str(), "--input", "8"}).out == shown.out);
  const Run classes = run({"model", "inspect", plain.c_str(), "--input", "8", "--classes", "5"});
  CHECK(classes.code == 3);
  CHECK_THAT(classes.err, Contains("--classes 5 is of built-in networks; " + plain));
}

TEST_CASE("model autotune writes choices that model inspect takes, and keeps those it is given") {
  const TestFolder folder("model-verbs-test-autotune");
  const std::string path = (folder.path() / "kernels.json").string();
  const auto tune = [&path](std::vector<std::string> more) {
    std::vector<std::string> words = {"model", "autotune", "tiny-bn", "-o", path};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  };
  const Run tuned = tune({"--batch", "4"});
  INFO(tuned.err);
  REQUIRE(tuned.code == 0);
  CHECK_THAT(tuned.out, Contains("kernels.json: kernels for ") && Contains("; measured now: "));
  CHECK(tuned.err.empty());
  const std::vector<std::string> inspect = {"model", "inspect",   "tiny-bn", "--batch",
                                            "4",     "--kernels", path};
  CHECK_THAT(run(inspect).out, Contains("\nstored choices  decided "));
  CHECK_THAT(run({"model", "inspect", "tiny-bn"}).out, !Contains("stored choices"));

  // What somebody has written into the file stays, and is obeyed.
  auto choices = symbol::KernelChoices::load(path).value();
  const std::size_t calls = choices.calls.size();
  for (auto& [call, choice] : choices.calls) {
    if (call.find(" convolution(") != std::string::npos) choice.kernel = "reference";
  }
  std::ofstream(path) << choices.to_json();
  REQUIRE(tune({"--batch", "4", "--kernels", path, "--time", "0s"}).code == 0);
  CHECK(symbol::KernelChoices::load(path).value().calls == choices.calls);
  const std::regex reference(R"(\nconv1 +convolution .* reference\n)");
  CHECK(std::regex_search(run(inspect).out, reference));
  std::vector<std::string> passes = inspect;
  passes.emplace_back("--print-passes");
  CHECK_THAT(run(passes).out, Contains("> conv1 = convolution(reference) by a stored choice\n"));
  // Another batch is left to the rule, and measured beside what is there.
  REQUIRE(tune({"--kernels", path, "--batch", "2"}).code == 0);
  CHECK(symbol::KernelChoices::load(path).value().calls.size() > calls);

  // Without time nothing is lost: neither all of the file, nor what it has beside a little that was
  // measured anew.
  const std::string before = text_of(path);
  const Run none = tune({"--time", "0s"});
  CHECK(none.code == static_cast<int>(ExitCode::failed));
  CHECK_THAT(none.err, Contains("in 0s: nothing was measured, so " + path + " is not written"));
  CHECK(text_of(path) == before);
  const auto all = symbol::KernelChoices::load(path).value();
  const Run late = tune({"--time", "1ms", "--batch", "2"});
  CHECK(late.code == 0);
  CHECK_THAT(late.err, Contains(" left to the rule, which did not fit into the time of 1ms; "));
  const auto kept = symbol::KernelChoices::load(path).value();
  for (const auto& [call, choice] : all.calls) CHECK(kept.calls.contains(call));
  choices.calls.begin()->second.kernel = "cudnn";
  std::ofstream(path) << choices.to_json();
  const Run wrong = run(inspect);
  CHECK(wrong.code == 3);
  CHECK_THAT(wrong.err, Contains(path + " chooses kernel 'cudnn', which this build's operator") &&
                            Contains("tiny-bn") && Contains("]: "));
  std::ofstream(path) << "{";
  CHECK_THAT(run(inspect).err, Contains(path + ": byte 2: not JSON"));
  for (const char* text : {"{", "", "my notes\n", "{\"troupe_kernels\": 99}"}) {
    std::ofstream(path) << text;
    const Run other = tune({"--batch", "4"});
    CHECK(other.code == static_cast<int>(ExitCode::conflict));
    CHECK_THAT(other.err, StartsWith("error: " + path + ": ") && Contains("is not replaced"));
    CHECK(text_of(path) == text);
  }
  CHECK(run({"model", "autotune", "tiny-bn", "-o", "/nowhere/k.json"}).code != 0);
  CHECK(run({"model", "autotune", "tiny-bn"}).code == 2);
}

TEST_CASE("model autotune loses no choices of other calls that its file had") {
  const TestFolder folder("model-verbs-test-autotune-again");
  const std::string path = (folder.path() / "kernels.json").string();
  const auto tune = [&path](const std::string& batch) {
    REQUIRE(run({"model", "autotune", "tiny-bn", "-o", path, "--batch", batch}).code == 0);
    return symbol::KernelChoices::load(path).value().calls;
  };
  const auto first = tune("2"), both = tune("1");
  CHECK(both.size() > first.size());
  for (const auto& [call, choice] : first) CHECK(both.contains(call));
}

TEST_CASE("model inspect tells a variable from an operator's output of the same name") {
  const TestFolder folder("model-verbs-test-names");
  const std::string path = (folder.path() / "net.json").string();
  std::ofstream(path) << R"json({"nodes": [
    {"op": "null", "name": "data", "inputs": []},
    {"op": "FullyConnected", "name": "big", "inputs": [[0, 0]], "attrs": {"num_hidden": "1000"}},
    {"op": "slice_axis", "name": "few", "inputs": [[1, 0]],
     "attrs": {"axis": "1", "begin": "0", "end": "4"}},
    {"op": "null", "name": "big_output", "inputs": [], "attrs": {"__shape__": "(1, 4)"}},
    {"op": "broadcast_mul", "name": "scaled", "inputs": [[2, 0], [3, 0]]},
    {"op": "SoftmaxOutput", "name": "softmax", "inputs": [[4, 0]]}], "heads": [[5, 0]]})json";
  const Run shown = run({"model", "inspect", path, "--input", "1,4,4", "--batch", "2"});
  INFO(shown.err);
  REQUIRE(shown.code == 0);
  CHECK_THAT(shown.out, Contains("(2, 1000)"));
}

/// A network whose operator and parameter have names that a terminal would obey.
constexpr const char* kWildNetwork = R"({"nodes": [
  {"op": "null", "name": "data", "inputs": []},
  {"op": "null", "name": "w\u001b[31m\nkey", "inputs": []},
  {"op": "FullyConnected", "name": "f\u001b]0;owned\u0007\nforged  layer",
   "inputs": [[0, 0], [1, 0]], "attrs": {"num_hidden": "4", "no_bias": "True"}},
  {"op": "SoftmaxOutput", "name": "softmax", "inputs": [[2, 0]]}], "heads": [[3, 0]]})";

TEST_CASE("names in a symbol file are shown, and obeyed by no terminal") {
  const TestFolder folder("model-verbs-test-wild");
  const std::string path = (folder.path() / "wild.json").string();
  std::ofstream(path) << kWildNetwork;
  const auto inspect = [&path](const char* flag) {
    const Run shown = run({"model", "inspect", path, "--input", "1,4,4", flag});
    INFO(shown.err);
    CHECK(shown.code == 0);
    return shown.out;
  };
  for (const char* flag : {"--dense", "--why", "--dot", "--print-passes"}) {
    const std::string out = inspect(flag);
    INFO(flag << ": " << out);
    CHECK(out.find_first_of("\x1b\x07") == std::string::npos);
    CHECK_THAT(out, Contains("f?]0;owned??forged  layer") && !Contains("\nforged"));
  }
  CHECK_THAT(inspect("--dot"), Contains("\"w?[31m?key\""));
  CHECK_THAT(inspect("--json"), Contains("f\\u001b]0;owned\\u0007\\nforged  layer"));

  train::write_test_records(folder.path() / "train.rec", 16, 4);
  const auto job = folder.path() / "job.toml";
  std::ofstream(job) << "name = \"wild\"\nmodel = { symbol = '" << path << "' }\n[data]\ntrain = '"
                     << (folder.path() / "train.rec").string() << "'\nbatch = 8\n[checkpoint]\n"
                     << "dir = \"" << (folder.path() / "out").string() << "\\u001b[2J\"\n";
  const Run ran = run({"run", job.string(), "--quiet"});
  INFO(ran.err);
  REQUIRE(ran.code == 0);
  CHECK_THAT(ran.out, Contains("/out?[2J/step-2-g1\n"));
  const std::string out = (folder.path() / "out\x1b[2J").string();
  CHECK_THAT(
      run({"checkpoint", "show", out}).out,
      Contains("/out?[2J/step-2-g1.manifest\n") && Contains("\nkey         w?[31m?key (4, 16)"));
  CHECK_THAT(run({"checkpoint", "show", out, "--json"}).out, Contains("w\\u001b[31m\\nkey"));
}

TEST_CASE("model list has every built-in network with its size") {
  const Run list = run({"model", "list"});
  CHECK(list.code == 0);
  CHECK_THAT(list.out, Contains("lenet            1,28,28           10     431,080"));
  CHECK_THAT(list.out, Contains("\nresnet50 ") && Contains("\nmobilenet-v2 "));
}

TEST_CASE("networks are looked at and tuned where people say", "[program]") {
  const Run cpu = run({"model", "inspect", "mlp", "--device", "cpu"});
  CHECK(cpu.out == run({"model", "inspect", "mlp"}).out);
  for (const char* device : {"tpu", "gpu:", "gpu:x", "gpu:0,1", "cpu:2", "gpu:64"}) {
    const Run bad = run({"model", "inspect", "mlp", "--device", device});
    CHECK(bad.code == 2);
    CHECK_THAT(bad.err, Contains(device) && Contains("gpu:INDEX"));
  }
  if (gpu::inventory().problem.empty()) return;
  const TestFolder folder("model-device");
  const std::string output = folder.path() / "kernels.json";
  for (const std::string verb : {"inspect", "autotune"}) {
    std::vector<std::string> words = {"model", verb, "mlp", "--device", "gpu:1"};
    if (verb == "autotune") words.insert(words.end(), {"-o", output});
    const Run refused = run(words);
    CHECK(refused.code == 7);
    CHECK_THAT(refused.err, Contains("cuda:1") && Contains(gpu::inventory().problem));
  }
}

TEST_CASE("models that cannot be are refused with their names", "[program]") {
  const Run unknown = run({"model", "inspect", "lenett"});
  CHECK(unknown.code == 5);
  CHECK_THAT(unknown.err, Contains("lenett") && Contains("lenet"));
  const Run small = run({"model", "inspect", "lenet", "--input", "1,3,3"});
  CHECK(small.code == 3);
  CHECK_THAT(small.err, Contains("convolution conv1") && Contains("(32, 1, 3, 3)"));
  for (const char* input : {"1,x", "", "()", "1x28x28", "99999999999,99999999999"}) {
    INFO(input);
    const Run bad = run({"model", "inspect", "lenet", "--input", input});
    CHECK(bad.code == 2);
    CHECK_THAT(bad.err, Contains("--input"));
  }
  for (const char* input : {"0,28,28", "?,28,28"}) {
    INFO(input);
    const Run bad = run({"model", "inspect", "lenet", "--input", input});
    CHECK(bad.code == 3);
    CHECK_THAT(bad.err,
               StartsWith(std::string("error: lenet with --input ") + input + " --batch "));
  }
  const auto path = std::filesystem::temp_directory_path() / "troupe-program-test.json";
  for (const char* text : {"", "{", "{\"nodes\": 3}", "[1]", "{\"nodes\": [{\"op\": \"x\"}]}"}) {
    std::ofstream(path) << text;
    const Run bad = run({"model", "inspect", path.string()});
    INFO(text);
    CHECK(bad.code == 3);
    CHECK(std::count(bad.err.begin(), bad.err.end(), '\n') == 1);
  }
  std::filesystem::remove(path);
  CHECK(run({"model", "inspect", path.string()}).code == 5);
}

}  // namespace
}  // namespace troupe::apps
