// SPDX-License-Identifier: Apache-2.0
// Auxiliary states that several nodes move.
#include "symbol/states.h"

#include "tests/support/catch.h"
#include "tests/symbol/bound.h"

namespace troupe::symbol {
namespace {

using tests::TestRuntime;

TEST_CASE("batch_norms that share their states move them one after the other, as in MXNet") {
  TestRuntime test;
  Composer c(table());
  const Symbol x = c.variable("x"), gamma = c.variable("gamma"), beta = c.variable("beta");
  const Symbol mean = c.variable("mean"), var = c.variable("var");
  Symbol net = c.call("BatchNorm", "bn1", {x, gamma, beta, mean, var},
                      {{"momentum", "0.9"}, {"fix_gamma", "False"}});
  net = c.call("_plus_scalar", "", {c.call("_mul_scalar", "", {net}, {{"scalar", "3"}})});
  net = c.call("BatchNorm", "bn2", {net, gamma, beta, mean, var},
               {{"momentum", "0.8"}, {"fix_gamma", "False"}});
  Bindings bindings =
      allocate_bindings(test.runtime, c.finish(net).value(), {{"x", {4, 2}}}, base::DType::f64)
          .value();
  bindings.arguments["x"] = array(test, {4, 2}, {1, 2, 3, 5, 0, 1, 7, 8});
  bindings.arguments["gamma"] = array(test, {2}, {2, 0.5});
  bindings.arguments["beta"] = array(test, {2}, {0.3, -1});
  bindings.auxiliary["mean"] = array(test, {2}, {10, 20});
  bindings.auxiliary["var"] = array(test, {2}, {5, 7});
  for (const char* name : {"x", "gamma", "beta"}) bindings.grad_req[name] = GradReq::write;
  const auto executor = Executor::bind(test.runtime, net, bindings).value();
  REQUIRE(executor->forward(true).ok());
  CHECK(executor->batch_values().size() == 2);
  CHECK(executor->momenta().at("mean") == Approx(0.72));
  // What MXNet 1.9.1 makes of these states in one step.
  const std::map<std::string, std::vector<double>> theirs = {{"mean", {7.817, 14.440001}},
                                                             {"var", {10.797848, 6.194946}}};
  for (const auto& [name, expected] : theirs) {
    const std::vector<double> before = values(executor->auxiliary().at(name));
    const std::vector<double> batch = values(executor->batch_values().at(name));
    const double m = executor->momenta().at(name);
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(m * before[i] + (1 - m) * batch[i] == Approx(expected[i]).epsilon(1e-6));
    }
  }
}

TEST_CASE("a batch_norm with use_global_stats moves no state") {
  const bool shared = GENERATE(true, false), frozen_first = GENERATE(true, false);
  TestRuntime test;
  Composer c(table());
  const Symbol x = c.variable("x"), gamma = c.variable("gamma"), beta = c.variable("beta");
  const Symbol mean = c.variable("mean"), var = c.variable("var");
  const ops::Attributes frozen = {{"use_global_stats", "True"}}, moves = {{"momentum", "0.9"}};
  Symbol net = c.call("BatchNorm", "bn1", {x, gamma, beta, mean, var},
                      !shared || frozen_first ? frozen : moves);
  if (shared) {
    net = c.call("BatchNorm", "bn2", {net, gamma, beta, mean, var}, frozen_first ? moves : frozen);
  }
  Bindings bindings =
      allocate_bindings(test.runtime, c.finish(net).value(), {{"x", {4, 2}}}, base::DType::f64)
          .value();
  const auto executor = Executor::bind(test.runtime, net, bindings).value();
  CHECK(executor->momenta().at("mean") == (shared ? 0.9 : 1.0));
  CHECK(executor->momenta().at("var") == (shared ? 0.9 : 1.0));
}

}  // namespace
}  // namespace troupe::symbol
