// SPDX-License-Identifier: Apache-2.0
// Files of MXNet, old ones and Gluon's, and files for it.
#include "symbol/mxnet.h"

#include <map>
#include <nlohmann/json.hpp>

#include "ndarray/invoke.h"
#include "tests/support/catch.h"
#include "tests/symbol/bound.h"

namespace troupe::symbol {
namespace {

using base::Shape;

/// In the form of MXNet 0.8: two-element inputs, "param" and "attr", no auxiliary inputs.
constexpr const char* kOldFile = R"json({
  "nodes": [
    {"op": "null", "param": {}, "name": "data", "inputs": [], "backward_source_id": -1},
    {"op": "null", "param": {}, "name": "conv_weight", "inputs": [], "backward_source_id": -1,
     "attr": {"lr_mult": "0.1"}},
    {"op": "Convolution", "param": {"kernel": "(3,3)",
                     "num_filter" : "6",
                     "num_group" : "1",
                     "no_bias" : "True",
                     "pad" : "(1,1)",
                     "stride" : "(1,1)",
                     "dilate" : "(1,1)",
                     "workspace" : "512",
                     "cudnn_tune" : "off"
}
, "name" : "conv", "inputs" : [ [ 0, 0 ], [ 1, 0 ] ], "backward_source_id" : -1, "attr" : {
  "ctx_group" : "stage1"
}
},
    {"op": "null", "param": {}, "name": "bn_gamma", "inputs": [], "backward_source_id": -1},
    {"op": "null", "param": {}, "name": "bn_beta", "inputs": [], "backward_source_id": -1},
    {"op": "BatchNorm", "param": {"eps": "0.001", "fix_gamma": "True", "momentum": "0.9",
     "use_global_stats": "False"}, "name": "bn", "inputs": [[2, 0], [3, 0], [4, 0]]},
    {"op": "Activation", "param": {"act_type": "relu"}, "name": "relu", "inputs": [[5, 0]]},
    {"op": "Flatten", "param": {}, "name": "flat", "inputs": [[6, 0]]},
    {"op": "null", "param": {}, "name": "label", "inputs": []},
    {"op": "SoftmaxOutput", "param": {"grad_scale": "1", "ignore_label": "-1",
     "multi_output": "False", "normalization": "null", "preserve_shape": "False",
     "use_ignore": "False"}, "name": "softmax", "inputs": [[7, 0], [8, 0]]}
  ],
  "arg_nodes": [0, 1, 3, 4, 8],
  "heads": [[9, 0]]
})json";

TEST_CASE("files of old MXNet versions load") {
  const Symbol net = Symbol::from_json(table(), kOldFile).value();
  CHECK(net.list_arguments() == Names{"data", "conv_weight", "bn_gamma", "bn_beta", "label"});
  CHECK(net.list_auxiliary_states() == Names{"bn_moving_mean", "bn_moving_var"});
  CHECK(net.list_outputs() == Names{"softmax_output"});
  const InferredShapes shapes = net.infer_shapes({{"data", Shape{2, 3, 8, 8}}}).value();
  CHECK(shapes.arguments[1] == Shape{6, 3, 3, 3});
  CHECK(shapes.auxiliary[0] == Shape{6});
  CHECK(net.to_json().find("\"__lr_mult__\":\"0.1\"") != std::string::npos);
}

/// A file of one call of `op` with the given attributes, behind one variable per input.
base::Result<Symbol> file_of(const std::string& op, const ops::Attributes& attributes,
                             int inputs = 1, const std::string& keys = "attrs") {
  std::string nodes, references;
  for (int i = 0; i < inputs; ++i) {
    nodes += fmt::format(R"({{"op": "null", "name": "v{}", "inputs": []}}, )", i);
    references += fmt::format("{}[{}, 0]", i == 0 ? "" : ", ", i);
  }
  std::string texts;
  for (const auto& [name, value] : attributes) {
    texts += fmt::format(R"({}"{}": "{}")", texts.empty() ? "" : ", ", name, value);
  }
  const std::string key = keys == "attr" ? R"("param": {}, "attr")" : fmt::format("\"{}\"", keys);
  return Symbol::from_json(
      table(),
      fmt::format(R"({{"nodes": [{}{{"op": "{}", "name": "call", {}: {{{}}}, "inputs": [{}]}}],
               "heads": [[{}, 0]]}})",
                  nodes, op, key, texts, references, inputs));
}

TEST_CASE("what Gluon exports is read: dtypes as numbers, extents of 0 that are not known") {
  const std::string text = R"json({"nodes": [
    {"op": "null", "name": "data", "inputs": []},
    {"op": "null", "name": "weight", "inputs": [],
     "attrs": {"__dtype__": "0", "__lr_mult__": "1.0", "__shape__": "(64, 0, 7, 7)",
               "__storage_type__": "0", "__wd_mult__": "1.0"}},
    {"op": "Convolution", "name": "conv", "inputs": [[0, 0, 0], [1, 0, 0]],
     "attrs": {"dilate": "(1, 1)", "kernel": "(7, 7)", "layout": "NCHW", "no_bias": "True",
               "num_filter": "64", "num_group": "1", "pad": "(3, 3)", "stride": "(2, 2)"}},
    {"op": "null", "name": "running_var", "inputs": [],
     "attrs": {"__dtype__": "0", "__init__": "ones", "__shape__": "(0,)"}}],
    "arg_nodes": [0, 1, 3], "heads": [[2, 0, 0], [3, 0, 0]],
    "attrs": {"mxnet_version": ["int", 10901]}})json";
  const Symbol net = Symbol::from_json(table(), text).value();
  const InferredShapes shapes =
      net.infer_shapes({{"data", Shape{1, 3, 64, 64}}, {"running_var", Shape{5}}}).value();
  CHECK(shapes.arguments == std::vector<Shape>{{1, 3, 64, 64}, {64, 3, 7, 7}, {5}});
  CHECK(net.infer_dtypes({}).value().arguments[1] == base::DType::f32);
  CHECK(mentions(net.infer_dtypes({{"data", base::DType::f64}}).status(), {"conv", "f32", "f64"}));
  CHECK(net.to_json().find(R"x("__shape__":"(64, 0, 7, 7)")x") != std::string::npos);
}

TEST_CASE("the batch of an unrolled network's first state is taken from its readers") {
  const std::string file = R"x({"nodes": [
      {"op": "null", "name": "data", "inputs": []},
      {"op": "null", "name": "w", "inputs": []},
      {"op": "_zeros", "name": "begin", "attrs": {"shape": "(0, 4)"}, "inputs": []},
      {"op": "null", "name": "u", "inputs": []},
      {"op": "FullyConnected", "name": "i2h", "attrs": {"num_hidden": "4", "no_bias": "True"},
       "inputs": [[0, 0, 0], [1, 0, 0]]},
      {"op": "FullyConnected", "name": "h2h", "attrs": {"num_hidden": "4", "no_bias": "True"},
       "inputs": [[2, 0, 0], [3, 0, 0]]},
      {"op": "elemwise_add", "name": "sum", "inputs": [[4, 0, 0], [5, 0, 0]]}],
      "arg_nodes": [0, 1, 3], "heads": [[6, 0, 0]]})x";
  const Symbol net = Symbol::from_json(table(), file).value();
  const InferredShapes shapes = net.infer_shapes({{"data", {3, 5}}}).value();
  CHECK(shapes.complete);
  CHECK(shapes.outputs[0] == Shape{3, 4});
  CHECK(shapes.arguments[2] == Shape{4, 4});
  CHECK(net.to_json().find(R"x("shape":"(0, 4)")x") != std::string::npos);
  CHECK_FALSE(net.infer_shapes({{"w", {4, 5}}}).value().complete);
}

TEST_CASE("an operator that is called like a variable gets another name") {
  const std::string text = R"json({"nodes": [
    {"op": "null", "name": "x", "inputs": []},
    {"op": "exp", "name": "x", "inputs": [[0, 0, 0]]},
    {"op": "exp", "name": "y", "inputs": [[1, 0, 0]]},
    {"op": "null", "name": "y", "inputs": []},
    {"op": "elemwise_add", "name": "sum", "inputs": [[2, 0, 0], [3, 0, 0]]}],
    "arg_nodes": [0, 3], "heads": [[4, 0, 0]]})json";
  const Symbol net = Symbol::from_json(table(), text).value();
  CHECK(net.validate().ok());
  CHECK(net.list_arguments() == std::vector<std::string>{"x", "y"});
  CHECK(net.internals().list_outputs() ==
        std::vector<std::string>{"x", "x_1_output", "y_1_output", "y", "sum_output"});
}

TEST_CASE("__shape__ and __dtype__ are MXNet's: what is unknown tells nothing") {
  const auto shape = [](const char* text) {
    return Symbol::variable("v", {{"__shape__", text}})
        .infer_shapes({{"v", Shape{2, base::kUnknownDim}}});
  };
  for (const char* text : {"(2, 0)", "(2, -1)", "()", "None", "(0, 0)", "[2, 0]"}) {
    INFO(text);
    CHECK(shape(text).value().arguments.front() == Shape{2, base::kUnknownDim});
  }
  CHECK(mentions(shape("(3, 0)").status(), {"variable v", "(3, ?)", "(2, ?)"}));
  const auto dtype = [](const char* text) {
    return Symbol::variable("v", {{"__dtype__", text}}).infer_dtypes({});
  };
  using base::DType;
  const std::pair<const char*, DType> kNumbers[] = {
      {"0", DType::f32},  {"1", DType::f64},   {"2", DType::f16},   {"3", DType::u8},
      {"4", DType::i32},  {"5", DType::i8},    {"6", DType::i64},   {"7", DType::boolean},
      {"-1", DType::f32}, {"f64", DType::f64}, {"12", DType::bf16}, {"int8", DType::i8}};
  for (const auto& [text, expected] : kNumbers) {
    INFO(text);
    CHECK(dtype(text).value().arguments.front() == expected);
  }
  CHECK(mentions(dtype("9").status(), {"variable v", "__dtype__", "dtype 9"}));
  CHECK(mentions(dtype("float").status(), {"variable v", "'float'"}));
  const Symbol written =
      Symbol::variable("v", {{"__dtype__", "f64"}, {"__shape__", "(3, ?)"}, {"colour", "red"}});
  const std::string text = written.to_json();
  CHECK(text.find(R"("__dtype__":"1")") != std::string::npos);
  CHECK(text.find(R"x("__shape__":"(3, 0)")x") != std::string::npos);
  CHECK(text.find(R"("colour":"red")") != std::string::npos);
}

TEST_CASE("attributes of old files: Reshape's target_shape, lr_mult of inputs, users' own") {
  const auto reshaped = [](const ops::Attributes& attributes) {
    return file_of("Reshape", attributes).value().infer_shapes({{"v0", Shape{4, 3, 5}}}).value();
  };
  CHECK(reshaped({{"shape", "(12, -1)"}, {"target_shape", "(0, 0)"}, {"keep_highest", "False"}})
            .outputs.front() == Shape{12, 5});
  CHECK(reshaped({{"shape", "()"}, {"target_shape", "(20, 0)"}}).outputs.front() == Shape{20, 3});
  CHECK(reshaped({{"target_shape", "(0, 3, 5)"}}).outputs.front() == Shape{4, 3, 5});
  CHECK(reshaped({{"target_shape", "(9, 0)"}, {"keep_highest", "True"}}).outputs.front() ==
        Shape{4, 15});
  // An attribute that MXNet's own parser refuses here too.
  CHECK(mentions(file_of("Reshape", {{"shape", "(2, 2)"}, {"keep", "1"}}).status(), {"'keep'"}));

  const ops::Attributes given = {{"weight_lr_mult", "2"}, {"bias_wd_mult", "0"},
                                 {"ctx_group", "g1"},     {"colour", "red"},
                                 {"__mood__", "good"},    {"num_hidden", "3"}};
  const Graph graph = file_of("FullyConnected", given, 3, "attr").value().graph();
  CHECK(graph.nodes[1].extra == ops::Attributes{{"__lr_mult__", "2"}});
  CHECK(graph.nodes[2].extra == ops::Attributes{{"__wd_mult__", "0"}});
  CHECK(graph.nodes[3].extra ==
        ops::Attributes{{"__colour__", "red"}, {"__ctx_group__", "g1"}, {"__mood__", "good"}});
  // Where parameters and others are under one key, an unknown one may be a parameter.
  CHECK(mentions(file_of("FullyConnected", given, 3).status(), {"'colour'"}));
  CHECK(mentions(
      file_of("FullyConnected", {{"num_hidden", "3"}, {"weigth_lr_mult", "2"}}, 3).status(),
      {"'weigth_lr_mult'"}));
}

TEST_CASE("MXNet's first pooling is read where today's computes the same") {
  const auto load = [](const std::string& attributes) {
    return Symbol::from_json(table(), R"json({"nodes": [
        {"op": "null", "name": "data", "inputs": []},
        {"op": "Pooling_v1", "name": "pool", "attrs": {"kernel": "(3, 3)")json" +
                                          attributes +
                                          R"json(}, "inputs": [[0, 0, 0]]}],
        "arg_nodes": [0], "heads": [[1, 0, 0]]})json");
  };
  CHECK(load("").ok());
  CHECK(load(R"json(, "pad": "(0, 0)", "pooling_convention": "full")json").ok());
  for (const char* other : {R"json(, "pad": "(0, 1)")json",
                            R"json(, "pooling_convention": "full", "pool_type": "avg")json"}) {
    CHECK_THAT(load(other).status().text(), Catch::Contains("Pooling_v1"));
  }
}

TEST_CASE("attributes that change nothing are taken, others of their name are not") {
  struct Case {
    std::string op;
    ops::Attributes needed, harmless, harmful;
    int inputs = 1;
  };
  const Case cases[] = {
      {"softmax",
       {},
       {{"temperature", "None"}, {"dtype", "None"}, {"use_length", "False"}},
       {{"temperature", "2"}}},
      {"log_softmax", {}, {{"temperature", "1.0"}, {"use_length", "0"}}, {{"dtype", "float16"}}},
      {"_plus_scalar", {}, {{"is_int", "False"}}, {{"is_float", "1"}}},
      {"_rdiv_scalar", {{"scalar", "2"}}, {{"is_int", "1"}}, {{"scalar", "two"}}},
      {"dot", {}, {{"forward_stype", "default"}}, {{"forward_stype", "csr"}}, 2},
      {"_zeros", {{"shape", "(2L, 3L)"}}, {{"ctx", "cpu(0)"}}, {{"shape", "(2M,)"}}, 0},
      {"_ones", {{"shape", "(2,)"}}, {{"ctx", ""}}, {{"dtype", "float"}}, 0},
      {"_full", {{"shape", "2"}, {"value", "7"}}, {{"ctx", "gpu(1)"}}, {{"value", "x"}}, 0},
      {"_random_normal",
       {{"shape", "2"}},
       {{"ctx", "cpu(0)"}, {"dtype", "None"}},
       {{"scale", "-1"}},
       0},
      {"BatchNorm",
       {},
       {{"min_calib_range", "None"}, {"output_mean_var", "0"}},
       {{"output_mean_var", "True"}},
       5},
      {"Reshape", {{"shape", "(-1,)"}}, {{"keep_highest", "False"}}, {{"shape", "(-5,)"}}},
      {"reshape_like", {}, {{"lhs_begin", "None"}, {"rhs_end", "None"}}, {{"lhs_begin", "1"}}, 2},
      {"Convolution",
       {{"kernel", "(3L, 3L)"}, {"num_filter", "2L"}, {"no_bias", "1"}},
       {{"workspace", "512"}, {"cudnn_tune", "off"}},
       {{"workspaces", "512"}},
       2},
      {"Pooling",
       {{"kernel", "(2, 2)"}},
       {{"p_value", "2"}, {"cudnn_off", "0"}},
       {{"pool_type", "lp"}}},
      {"Deconvolution",
       {{"kernel", "(4, 4)"}, {"num_filter", "2"}},
       {{"workspace", "512"}, {"cudnn_tune", "off"}, {"target_shape", "[]"}},
       {{"layout", "NHWC"}},
       2},
      {"LeakyReLU",
       {{"act_type", "elu"}},
       {{"lower_bound", "0.125"}, {"upper_bound", "0.334"}},
       {{"act_type", "rrelu"}}},
      {"UpSampling",
       {{"scale", "2"}, {"sample_type", "nearest"}},
       {{"num_filter", "0"}, {"multi_input_mode", "concat"}, {"workspace", "512"}},
       {{"sample_type", "bilinear"}}}};
  for (const Case& each : cases) {
    INFO(each.op);
    ops::Attributes good = each.needed, bad = each.needed;
    good.insert(each.harmless.begin(), each.harmless.end());
    for (const auto& [name, value] : each.harmful) bad[name] = value;
    const auto net = file_of(each.op, good, each.inputs);
    INFO(net.status().to_string());
    CHECK(net.ok());
    CHECK(mentions(file_of(each.op, bad, each.inputs).status(),
                   {each.harmful.begin()->first.c_str()}));
  }
  Symbol sum = Symbol::create(table(), "_plus_scalar", "s", {{Symbol::variable("x")}, {}}).value();
  CHECK(sum.graph().nodes.back().params.real("scalar") == 1.0);
}

TEST_CASE("files are written with MXNet's names and what differs from defaults") {
  Composer c(table());
  Symbol net = c.call("convolution", "conv", {c.variable("data")},
                      {{"kernel", "(3, 3)"}, {"num_filter", "8"}, {"pad", "(1, 1)"}});
  net = c.call("batch_norm", "bn", {net}, {{"fix_gamma", "False"}});
  net = c.call("add", "s", {net, net});
  net = c.call("pooling", "pool", {net}, {{"kernel", "(2, 2)"}});
  net = c.call("cast", "wide", {net}, {{"dtype", "f64"}});
  net = c.call("slice_axis", "part", {net}, {{"axis", "1"}});
  net = c.call("concat", "both", {net, net});
  net = c.call("deconvolution", "up", {net}, {{"kernel", "(2, 2)"}, {"num_filter", "4"}});
  net = c.call("leaky_relu", "leaky", {net}, {{"slope", "0.1"}});
  net = c.call("lrn", "norm", {net}, {{"nsize", "5"}, {"alpha", "0.0001"}});
  net =
      c.call("pad", "border", {net}, {{"mode", "edge"}, {"pad_width", "(0, 0, 0, 0, 1, 1, 1, 1)"}});
  net = c.call("upsampling", "larger", {net}, {{"scale", "2"}, {"sample_type", "nearest"}});
  net = c.call("transpose", "turned", {net}, {{"axes", "(0, 2, 3, 1)"}});
  net = c.call("expand_dims", "wider", {net}, {{"axis", "0"}});
  net = c.call("split", "pieces", {net}, {{"num_outputs", "1"}});
  const auto file = nlohmann::json::parse(c.finish(net).value().to_json());
  std::map<std::string, nlohmann::json> written;
  for (const auto& node : file["nodes"]) {
    if (node["op"] != "null") written[node["op"]] = node.value("attrs", nlohmann::json::object());
  }
  using Texts = std::map<std::string, std::string>;
  CHECK(written.at("Convolution") ==
        nlohmann::json(Texts{{"kernel", "(3, 3)"}, {"num_filter", "8"}, {"pad", "(1, 1)"}}));
  CHECK(written.at("BatchNorm") == nlohmann::json(Texts{{"fix_gamma", "False"}}));
  CHECK(written.at("broadcast_add") == nlohmann::json::object());
  CHECK(written.at("Pooling") == nlohmann::json(Texts{{"kernel", "(2, 2)"}}));
  CHECK(written.at("Cast") == nlohmann::json(Texts{{"dtype", "float64"}}));
  CHECK(written.at("slice_axis") ==
        nlohmann::json(Texts{{"axis", "1"}, {"begin", "0"}, {"end", "None"}}));
  CHECK(written.at("Concat") == nlohmann::json(Texts{{"num_args", "2"}}));
  CHECK(written.at("Deconvolution") ==
        nlohmann::json(Texts{{"kernel", "(2, 2)"}, {"num_filter", "4"}}));
  CHECK(written.at("LeakyReLU") == nlohmann::json(Texts{{"slope", "0.1"}}));
  CHECK(written.at("LRN") == nlohmann::json(Texts{{"nsize", "5"}}));
  CHECK(written.at("Pad") ==
        nlohmann::json(Texts{{"mode", "edge"}, {"pad_width", "(0, 0, 0, 0, 1, 1, 1, 1)"}}));
  CHECK(written.at("UpSampling") ==
        nlohmann::json(Texts{{"num_args", "1"}, {"sample_type", "nearest"}, {"scale", "2"}}));
  CHECK(written.at("transpose") == nlohmann::json(Texts{{"axes", "(0, 2, 3, 1)"}}));
  CHECK(written.at("expand_dims") == nlohmann::json(Texts{{"axis", "0"}}));
  CHECK(written.at("SliceChannel") == nlohmann::json(Texts{{"num_outputs", "1"}}));
}

TEST_CASE("files name the parts of SliceChannel by number") {
  const std::string text = R"json({"nodes": [
    {"op": "null", "name": "data", "inputs": []},
    {"op": "SliceChannel", "name": "parts", "inputs": [[0, 0, 0]],
     "attrs": {"num_outputs": "2", "squeeze_axis": "False"}},
    {"op": "LeakyReLU", "name": "gate", "inputs": [[1, 1, 0]], "attrs": {"act_type": "gelu"}},
    {"op": "elemwise_mul", "name": "out", "inputs": [[1, 0, 0], [2, 0, 0]]}],
    "arg_nodes": [0], "heads": [[3, 0, 0], [1, 1, 0]]})json";
  const Symbol net = Symbol::from_json(table(), text).value();
  CHECK(net.list_outputs() == Names{"out_output", "parts_output1"});
  const InferredShapes shapes = net.infer_shapes({{"data", Shape{2, 6, 4}}}).value();
  CHECK(shapes.outputs == std::vector<Shape>{{2, 3, 4}, {2, 3, 4}});
  const Symbol again = Symbol::from_json(table(), net.to_json()).value();
  CHECK(again.to_json() == net.to_json());
}

TEST_CASE("a network that Gluon cast to float16 is bound, its batch_norm in f32") {
  const std::string text = R"json({"nodes": [
    {"op": "null", "name": "data", "inputs": []},
    {"op": "Cast", "name": "half", "inputs": [[0, 0, 0]], "attrs": {"dtype": "float16"}},
    {"op": "null", "name": "weight", "inputs": [], "attrs": {"__dtype__": "2"}},
    {"op": "Convolution", "name": "conv", "inputs": [[1, 0, 0], [2, 0, 0]],
     "attrs": {"kernel": "(3, 3)", "num_filter": "4", "no_bias": "True"}},
    {"op": "null", "name": "gamma", "inputs": [], "attrs": {"__dtype__": "0"}},
    {"op": "null", "name": "beta", "inputs": [], "attrs": {"__dtype__": "0"}},
    {"op": "null", "name": "mean", "inputs": [], "attrs": {"__dtype__": "0"}},
    {"op": "null", "name": "var", "inputs": [], "attrs": {"__dtype__": "0"}},
    {"op": "BatchNorm", "name": "bn", "attrs": {"fix_gamma": "False"},
     "inputs": [[3, 0, 0], [4, 0, 0], [5, 0, 0], [6, 0, 0], [7, 0, 0]]},
    {"op": "Activation", "name": "relu", "inputs": [[8, 0, 0]], "attrs": {"act_type": "relu"}},
    {"op": "Cast", "name": "out", "inputs": [[9, 0, 0]], "attrs": {"dtype": "float32"}}],
    "arg_nodes": [0, 2, 4, 5, 6, 7], "heads": [[10, 0, 0]]})json";
  const Symbol net = Symbol::from_json(table(), text).value();
  tests::TestRuntime test;
  std::vector<std::vector<float>> outputs;
  for (const bool fused : {true, false}) {
    Bindings bindings = allocate_bindings(test.runtime, net, {{"data", {2, 3, 6, 6}}}).value();
    CHECK(bindings.arguments.at("weight").dtype() == base::DType::f16);
    CHECK(bindings.auxiliary.at("var").dtype() == base::DType::f32);
    for (const auto* arrays : {&bindings.arguments, &bindings.auxiliary}) {
      for (const auto& [name, array] : *arrays) {
        if (array.dtype() == base::DType::f32) fill(array, name, 0.5, 1.5);
      }
    }
    const ndarray::NDArray ones =
        ndarray::call(test.runtime, "ones", {}, {{"shape", "(4, 3, 3, 3)"}});
    bindings.arguments.at("weight") =
        ndarray::call(test.runtime, "cast", {ones}, {{"dtype", "float16"}});
    ExecutorOptions options;
    options.fused = fused;
    const auto executor = Executor::bind(test.runtime, net, bindings, options).value();
    REQUIRE(executor->forward(false).ok());
    outputs.push_back(executor->outputs()[0].to_vector<float>().value());
  }
  REQUIRE(outputs[0].size() == outputs[1].size());
  for (std::size_t i = 0; i < outputs[0].size(); ++i) {
    CHECK(outputs[0][i] == Approx(outputs[1][i]).epsilon(2e-3));
  }
}

TEST_CASE("operands of MXNet's elemwise operators are inferred from each other") {
  const char* const kNames[] = {"elemwise_add", "elemwise_sub", "elemwise_mul", "elemwise_div",
                                "_Plus",        "_Minus",       "_Mul",         "_Div"};
  for (const char* name : kNames) {
    INFO(name);
    Composer c(table());
    const Symbol sum = c.finish(c.call(name, "s", {c.variable("data"), c.variable("w")})).value();
    CHECK(sum.infer_shapes({{"data", Shape{2, 7}}}).value().arguments.back() == Shape{2, 7});
    CHECK(mentions(sum.infer_shapes({{"data", Shape{2, 7}}, {"w", Shape{7}}}).status(),
                   {"_elemwise s]", "(2, 7)", "(7,)"}));
  }
  Composer c(table());
  const Symbol wide = c.call("broadcast_add", "s", {c.variable("data"), c.variable("w")});
  CHECK(!wide.infer_shapes({{"data", Shape{2, 7}}}).value().complete);
  CHECK(wide.infer_shapes({{"data", Shape{2, 7}}, {"w", Shape{7}}}).value().outputs.front() ==
        Shape{2, 7});
}

}  // namespace
}  // namespace troupe::symbol
