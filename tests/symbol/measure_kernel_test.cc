// SPDX-License-Identifier: Apache-2.0
// Timing of kernels on threads and on a late device, and what is said of kernels that compute
// something else.
#include "symbol/measure_kernel.h"

#include <atomic>
#include <limits>

#include "tests/support/delayed_stream.h"
#include "tests/symbol/bound.h"

namespace troupe::symbol {
namespace {

using base::Errc;

/// y = 2x by a kernel that says so, is off by a factor of 1 + `error`, and counts its runs.
ops::KernelDef twice(const std::string& name, double error, bool by_choice,
                     std::atomic<int>& runs) {
  class Twice final : public ops::Kernel {
   public:
    Twice(std::string name, double error, std::atomic<int>& runs)
        : name_(std::move(name)), error_(error), runs_(runs) {}
    std::string name() const override { return name_; }
    base::Status run(const ops::KernelContext& context) const override {
      ++runs_;
      const auto* x = context.inputs[0].as<float>();
      auto* y = context.outputs[0].as<float>();
      for (std::int64_t i = 0; i < context.outputs[0].elements(); ++i) {
        y[i] = static_cast<float>(2.0 * (1.0 + error_) * static_cast<double>(x[i]));
      }
      return {};
    }

   private:
    std::string name_;
    double error_;
    std::atomic<int>& runs_;
  };
  ops::KernelDef kernel;
  kernel.name = name;
  kernel.make = [name, error,
                 &runs](const ops::OpCall&) -> base::Result<std::unique_ptr<ops::Kernel>> {
    return std::unique_ptr<ops::Kernel>(std::make_unique<Twice>(name, error, runs));
  };
  kernel.seconds = [](const ops::OpCall&) { return 1e-6; };
  kernel.by_choice = by_choice;
  return kernel;
}

/// An operator of three kernels by choice beside its own, a runtime, and one late device.
struct Bench {
  explicit Bench(bool late) : test(true, with_stream()) {
    op = table().at("negative");
    op.kernels = {twice("plain", 0, false, runs[0]), twice("right", 1e-6, true, runs[1]),
                  twice("rounded", 3e-4, true, runs[2]),
                  twice("broken", std::numeric_limits<double>::quiet_NaN(), true, runs[3]),
                  twice("second", 3e-4, false, runs[4])};
    call.op = &op;
    call.inputs = call.outputs = {{base::DType::f32, {1'000}, {}, false}};
    if (late) call.device = stream.device();
    offers = ops::offers(call, nullptr, {.by_choice = true}).value();
    REQUIRE(offers.size() == 5);
  }
  engine::EngineOptions with_stream() {
    engine::EngineOptions options;
    options.streams = {&stream};
    return options;
  }

  tests::DelayedStream stream;
  tests::TestRuntime test;
  std::atomic<int> runs[5] = {};
  ops::OpDef op;
  ops::OpCall call;
  std::vector<ops::Offer> offers;  // in the order of the kernels
};

TEST_CASE("kernels are timed on threads and on a late device", "[measure_kernel]") {
  for (const bool late : {false, true}) {
    Bench bench(late);
    const MeasureFunction measure = measure_on(bench.test.runtime);
    const auto seconds = measure(bench.call, bench.offers[0]);
    REQUIRE(seconds.ok());
    CHECK(*seconds > 0);
    // The stream sleeps 20 us before each closure.
    if (late) CHECK(*seconds > 15e-6);
    CHECK(bench.runs[0] == (late ? 1 + 7 * 2 * 8 : 1 + 7));
  }
}

TEST_CASE("a kernel by choice must compute what the rule's does", "[measure_kernel]") {
  for (const bool late : {false, true}) {
    Bench bench(late);
    const MeasureFunction measure = measure_on(bench.test.runtime);
    // Nothing is known yet that could be right.
    CHECK(measure(bench.call, bench.offers[1]).status().code() == Errc::failed_precondition);
    REQUIRE(measure(bench.call, bench.offers[0]).ok());
    CHECK(measure(bench.call, bench.offers[4]).ok());  // of the rule's own the first one counts
    CHECK(measure(bench.call, bench.offers[1]).ok());
    const base::Status rounded = measure(bench.call, bench.offers[2]).status();
    CHECK(rounded.code() == Errc::data_loss);
    CHECK(mentions(rounded, {"rounded", "3.0e-04 away, more than 2e-05"}));
    CHECK(bench.runs[2] == 1);  // what is wrong is not timed
    CHECK(measure(bench.call, bench.offers[3]).status().code() == Errc::data_loss);
    // Another call has another reference.
    bench.call.tf32 = true;
    CHECK(measure(bench.call, bench.offers[2]).status().code() == Errc::failed_precondition);
    REQUIRE(measure(bench.call, bench.offers[0]).ok());
    CHECK(measure(bench.call, bench.offers[2]).ok());  // factors may be rounded
    CHECK_FALSE(measure(bench.call, bench.offers[3]).ok());
  }
}

TEST_CASE("by rule nobody asks kernels by choice", "[measure_kernel]") {
  const Bench bench(false);
  const auto by_rule = ops::offers(bench.call).value();
  REQUIRE(by_rule.size() == 2);
  CHECK(by_rule[0].kernel == "plain");
  CHECK(by_rule[1].kernel == "second");
  CHECK(ops::prepare(bench.call).value()->name() == "plain");
  const auto named = ops::offers(bench.call, nullptr, {.named = "rounded"}).value();
  REQUIRE(named.size() == 1);
  CHECK(named[0].kernel == "rounded");
}

}  // namespace
}  // namespace troupe::symbol
