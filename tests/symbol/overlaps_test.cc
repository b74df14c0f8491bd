// SPDX-License-Identifier: Apache-2.0
// Which bound arrays may share memory.
#include "symbol/overlaps.h"

#include <array>

#include "tests/support/catch.h"
#include "tests/symbol/bound.h"

namespace troupe::symbol {
namespace {

using base::DType;
using base::Shape;
using ndarray::NDArray;
using tests::TestRuntime;

/// y = relu(fc(x, w)), with gradients.
struct Net {
  TestRuntime test;
  Symbol symbol;
  Bindings bindings;

  Net() {
    Composer c(table());
    const ops::Attributes four = {{"num_hidden", "4"}, {"no_bias", "True"}};
    const Symbol fc = c.call("fully_connected", "fc", {c.variable("x")}, four);
    symbol = c.finish(c.call("activation", "y", {fc}, {{"act_type", "relu"}})).value();
    bindings = allocate_bindings(test.runtime, symbol, {{"x", Shape{4, 4}}}).value();
    for (const char* name : {"x", "fc_weight"}) {
      bindings.grad_req[name] = GradReq::write;
      bindings.gradients[name] = array({4, 4});
    }
    bindings.outputs = {array({4, 4})};
  }

  NDArray array(Shape shape) { return NDArray::zeros(test.runtime, shape, DType::f32).value(); }
  base::Status check() const {
    return check_overlaps(symbol.graph(), symbol.list_outputs(), bindings);
  }
};

TEST_CASE("arrays that a step writes lie apart", "[overlaps]") {
  Net net;
  CHECK(net.check().ok());
  const Bindings apart = net.bindings;
  const auto refuses = [&net](const std::string& a, const std::string& b) {
    const std::string text = net.check().text();
    INFO(text);
    CHECK(text.find(a) != std::string::npos);
    CHECK(text.find(b) != std::string::npos);
    return !net.check().ok() &&
           !Executor::bind(net.test.runtime, net.symbol, net.bindings, {}).ok();
  };
  net.bindings.outputs = {apart.arguments.at("x")};
  CHECK(refuses("'x'", "output 'y_output'"));
  net.bindings = apart;
  net.bindings.gradients["x"] = apart.gradients.at("fc_weight");
  CHECK(refuses("the gradient of 'x'", "the gradient of 'fc_weight'"));
  net.bindings.grad_req["x"] = GradReq::null;  // then nobody writes it
  CHECK(net.check().ok());
  // Parts of one array, that touch and that overlap.
  net.bindings = apart;
  const NDArray both = net.array({8, 4});
  net.bindings.gradients["x"] = both.slice(0, 4);
  net.bindings.gradients["fc_weight"] = both.slice(4, 8);
  CHECK(net.check().ok());
  net.bindings.gradients["fc_weight"] = both.slice(3, 7);
  CHECK(refuses("the gradient of 'x'", "the gradient of 'fc_weight'"));
}

TEST_CASE("outputs may be what their operator overwrites, or one value twice", "[overlaps]") {
  Net net;
  const Symbol update = Symbol::create(table(), "sgd_update", "sgd", Inputs{}, {}).value();
  Bindings bindings = allocate_bindings(net.test.runtime, update, {{"sgd_weight", {3}}}).value();
  const auto check = [&](const Symbol& symbol) {
    return check_overlaps(symbol.graph(), symbol.list_outputs(), bindings);
  };
  bindings.outputs = {bindings.arguments.at("sgd_weight")};
  CHECK(check(update).ok());
  // The operator reads those bytes as something else, too: by another array, by the same one.
  bindings.arguments["sgd_grad"] = bindings.arguments.at("sgd_weight");
  CHECK(mentions(check(update), {"'sgd_grad'", "output 'sgd_new_weight'"}));
  Composer c(table());
  const Symbol w = c.variable("w");
  const Symbol own = c.finish(c.call("sgd_update", "sgd", {w, w})).value();
  bindings = allocate_bindings(net.test.runtime, own, {{"w", {3}}}).value();
  bindings.outputs = {bindings.arguments.at("w")};
  CHECK(mentions(check(own), {"'w'", "output 'sgd_new_weight'"}));
  const Symbol twice = Symbol::group(std::array{net.symbol, net.symbol});
  bindings = net.bindings;
  bindings.outputs = {bindings.outputs[0], bindings.outputs[0]};
  CHECK(check(twice).ok());
}

}  // namespace
}  // namespace troupe::symbol
