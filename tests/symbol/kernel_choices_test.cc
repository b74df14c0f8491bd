// SPDX-License-Identifier: Apache-2.0
// Stored choices: their files, the texts of calls, and what a binding does with them.
#include "symbol/kernel_choices.h"

#include <rapidcheck.h>

#include <string>

#include "tests/symbol/bound.h"

namespace troupe::symbol {
namespace {

/// data -> conv -> relu -> fc -> softmax.
Symbol small_network() {
  Composer c(table());
  Symbol net = c.call("convolution", "conv", {c.variable("data")},
                      {{"num_filter", "8"}, {"kernel", "(3, 3)"}, {"no_bias", "True"}});
  net = c.call("activation", "relu", {net}, {{"act_type", "relu"}});
  net = c.call("fully_connected", "fc", {net}, {{"num_hidden", "10"}});
  return c.finish(c.call("softmax_output", "softmax", {net})).value();
}
const base::Shape kData{2, 3, 8, 8};
const std::string kConvolution =
    "convolution(kernel=(3, 3), no_bias=True, num_filter=8) f32 (2, 3, 8, 8), f32 (8, 3, 3, 3) -> "
    "f32 (2, 8, 6, 6)";
/// That of the network, which takes in the relu behind it.
const std::string kBound =
    "convolution(act_type=relu, kernel=(3, 3), no_bias=True, num_filter=8) f32 (2, 3, 8, 8), "
    "f32 (8, 3, 3, 3) -> f32 (2, 8, 6, 6)";

/// The network bound with choices; `options` says how else.
base::Result<ExecutorReport> bound(const std::map<std::string, KernelChoice>& calls,
                                   ExecutorOptions options = {},
                                   base::DType dtype = base::DType::f32) {
  tests::TestRuntime test;
  const Symbol net = small_network();
  options.kernels = std::make_shared<const KernelChoices>(KernelChoices{"k.json", "here", calls});
  TROUPE_TRY_ASSIGN(
      const auto executor,
      Executor::bind(test.runtime, net, make_bindings(test.runtime, net, kData, dtype), options));
  return executor->report();
}

const NodeReport& node(const ExecutorReport& report, const std::string& name) {
  const auto found = std::ranges::find(report.nodes, name, &NodeReport::name);
  REQUIRE(found != report.nodes.end());
  return *found;
}

TEST_CASE("a file of choices says what was written", "[kernel_choices]") {
  const KernelChoices choices{
      "k.json",
      "a machine",
      {{"train " + kConvolution, {"simd", {{"simd", 1.25e-3}, {"onednn", 0.5}}}},
       {"predict " + kConvolution, {"reference", {}}}}};
  const std::string text = choices.to_json();
  CHECK_THAT(text, Catch::Contains("\"kernel\": \"simd\"") && Catch::EndsWith("}\n"));
  const KernelChoices read = KernelChoices::from_json(text, "k.json").value();
  CHECK(read.calls == choices.calls);
  CHECK(read.machine == "a machine");
  CHECK(read.find("train " + kConvolution)->kernel == "simd");
  CHECK(read.find("train") == nullptr);
}

TEST_CASE("damaged files of choices are refused by name and place", "[kernel_choices]") {
  const auto [text, error] = GENERATE(Catch::Generators::table<std::string, std::string>({
      {"", "k.json: byte "},
      {"{\"troupe_kernels\": 1,", "k.json: byte 22: not JSON"},
      {"[1]", "k.json: is no file of kernel choices"},
      {"{\"nodes\": []}", "k.json: is no file of kernel choices"},
      {R"({"troupe_kernels": 2, "machine": "m", "choices": []})", "version 2 of kernel choices"},
      {R"({"troupe_kernels": "1", "machine": "m", "choices": []})",
       "k.json: 'troupe_kernels' must be a version number"},
      {"{\"troupe_kernels\": " + std::string(500000, '['), "k.json: byte 500020: not JSON"},
      {"{\"troupe_kernels\": " + std::string(250000, '[') + std::string(250000, ']') + "}",
       "k.json: 'troupe_kernels' must be a version number"},
      {R"({"troupe_kernels": 1, "machine": "m", "choices": [
         {"call": "train reorder() f32 2", "kernel": "onednn"}]})",
       "k.json: choices[0]: no kernel can be chosen for a reorder"},
      {R"({"troupe_kernels": 1, "choices": []})", "k.json: has no text 'machine'"},
      {R"({"troupe_kernels": 1, "machine": "m"})", "k.json: has no array 'choices'"},
      {R"({"troupe_kernels": 1, "machine": "m", "choices": [3]})", "choices[0]: must be an object"},
      {R"({"troupe_kernels": 1, "machine": "m", "choices": [{"kernel": "simd"}]})",
       "k.json: choices[0]: has no text 'call'"},
      {R"({"troupe_kernels": 1, "machine": "m", "choices": [{"call": "a", "kernel": ""}]})",
       "k.json: choices[0]: has no text 'kernel'"},
      {R"({"troupe_kernels": 1, "machine": "m", "choices": [
         {"call": "a: b\nc", "kernel": "d"}]})",
       "choices[0]: 'call' and 'kernel' are one line each"},
      {R"({"troupe_kernels": 1, "machine": "m", "choices": [
         {"call": "a", "kernel": "b", "seconds": 3}]})",
       "choices[0]: 'seconds' must be an object"},
      {R"({"troupe_kernels": 1, "machine": "m", "choices": [
         {"call": "a", "kernel": "b", "seconds": {"b": -1}}]})",
       "choices[0]: 'seconds' of 'b' must be a number >= 0"},
      {R"({"troupe_kernels": 1, "machine": "m", "choices": [
         {"call": "a", "kernel": "b"}, {"call": "a", "kernel": "c"}]})",
       "k.json: choices[1]: there is one for 'a' already"},
      {std::string(kKernelChoicesBytesMax + 1, ' '), "k.json: has 1048577 bytes; the limit is "},
  }));
  CHECK_THAT(KernelChoices::from_json(text, "k.json").status().text(), Catch::Contains(error));
}

TEST_CASE("no text makes the reader of choices fail in another way than by errors",
          "[kernel_choices]") {
  const KernelChoices choices{"k", "m", {{"train a() -> ", {"simd", {{"simd", 1.0}}}}}};
  rc::check("mutated files of choices", [&] {
    std::string text = choices.to_json();
    for (int i = *rc::gen::inRange(1, 6); i > 0; --i) {
      text[*rc::gen::inRange<std::size_t>(0, text.size())] = *rc::gen::arbitrary<char>();
    }
    const auto read = KernelChoices::from_json(text, "k");
    const bool good = read.ok() ? read->calls.size() <= 1 : read.status().text().starts_with("k: ");
    RC_ASSERT(good);
  });
}

TEST_CASE("a call is known by what it computes alone", "[kernel_choices]") {
  const ops::OpDef& op = table().at("convolution");
  const auto call_of = [&](const ops::Attributes& attributes) {
    return ops::make_call(
               op, ops::parse_params(op, attributes).value(),
               {{base::DType::f32, kData, {}, true}, {base::DType::f32, {8, 3, 3, 3}, {}, true}})
        .value();
  };
  const ops::Attributes plain = {{"num_filter", "8"}, {"kernel", "(3, 3)"}, {"no_bias", "True"}};
  ops::OpCall call = call_of(plain);
  CHECK(call_signature(call, true) == "train " + kConvolution + " in fixed layouts");
  call.outputs[0].any_layout = true;
  CHECK(call_signature(call, true) == "train " + kConvolution);
  CHECK(call_signature(call, false) == "predict " + kConvolution);
  ops::Attributes written = plain;
  written["stride"] = "(1, 1)";
  const std::string strided = call_signature(call_of(written), true);
  written["stride"] = "(2, 2)";
  CHECK(call_signature(call_of(written), true) != strided);
  call.team = 4;
  call.winograd = false;
  call.inputs[0].any_layout = false;
  CHECK(call_signature(call, true) == "train " + kConvolution);
  call.device = {base::DeviceKind::delayed, 0};  // runs the host's kernels
  CHECK(call_signature(call, true) == "train " + kConvolution);
  call.device = {base::DeviceKind::cuda, 3};
  CHECK(call_signature(call, true) == "train " + kConvolution + " on a GPU");
  call.tf32 = true;
  CHECK(call_signature(call, true) == "train " + kConvolution + " on a GPU in TF32");
  call.device = {};
  call.inputs[1].layout = {
      base::Layout::Kind::blocked, {0, 1, 2, 3}, {{0, 8}}, {8, 3, 3, 3}, "", 0};
  CHECK(call_signature(call, true).find("f32 (8, 3, 3, 3) Abcd8a -> ") != std::string::npos);
}

TEST_CASE("a stored choice goes before the rule, in its pass and for its call",
          "[kernel_choices]") {
  const ExecutorReport plain = bound({}).value();
  REQUIRE(node(plain, "conv").kernel != "reference");
  CHECK(plain.stored_choices == 0);
  const ExecutorReport chosen = bound({{"train " + kBound, {"reference", {}}}}).value();
  CHECK(node(chosen, "conv").kernel == "reference");
  CHECK(chosen.stored_choices == 1);
  CHECK(node(chosen, "fc").kernel == node(plain, "fc").kernel);
  // The other pass, and calls that the network does not have.
  ExecutorOptions predict;
  predict.train = false;
  const auto other = bound({{"train " + kBound, {"reference", {}}}}, predict).value();
  CHECK(node(other, "conv").kernel != "reference");
  const auto predicted = bound({{"predict " + kBound, {"reference", {}}}}, predict).value();
  CHECK(node(predicted, "conv").kernel == "reference");
  CHECK(bound({{"train nothing() -> ", {"reference", {}}}}).value().stored_choices == 0);
}

TEST_CASE("a choice that cannot be made names file, layer, kernel and reason",
          "[kernel_choices][onednn]") {
  const auto refused = [](const std::string& kernel, const ExecutorOptions& options = {},
                          base::DType dtype = base::DType::f32) {
    std::string call = "train " + kBound;
    if (dtype == base::DType::f64) {
      for (std::size_t at = 0; (at = call.find("f32", at)) != std::string::npos;) {
        call.replace(at, 3, "f64");
      }
    }
    return bound({{call, {kernel, {}}}}, options, dtype).status();
  };
  const base::Status unknown = refused("onednnn");
  CHECK(unknown.code() == base::Errc::invalid_argument);
  CHECK(mentions(unknown, {"[convolution conv]: k.json chooses kernel 'onednnn', which this "
                           "build's operator does not have; it has ",
                           "reference"}));
  CHECK(mentions(refused("onednn", {}, base::DType::f64),
                 {"[convolution conv]: k.json chooses kernel 'onednn', which declines here: "}));
  CHECK(mentions(refused("cuda"), {"chooses kernel 'cuda', which is for GPUs alone"}));
  ExecutorOptions direct;
  direct.winograd = false;
  CHECK(mentions(refused("simd:winograd", direct), {"[convolution conv]: ",
                                                    "'simd:winograd', which declines here: "
                                                    "Winograd's form is switched off"}));
  ExecutorOptions plain;
  plain.reference_only = true;
  CHECK(mentions(refused("onednn", plain), {"conv]: ", "only the reference kernels are wanted"}));
  CHECK(bound({{"train " + kBound, {"reference", {}}}}, plain).ok());
}

}  // namespace
}  // namespace troupe::symbol
