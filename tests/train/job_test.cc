// SPDX-License-Identifier: Apache-2.0
// What a job asks of a network: something to learn, parameters that it can train, and outputs that
// loss and accuracy can be read from.
#include "train/job.h"

#include <vector>

#include "tests/support/catch.h"
#include "tests/support/job_files.h"
#include "tests/support/test_runtime.h"

namespace troupe::train {
namespace {

using symbol::Symbol;

/// Jobs over images of four pixels.
struct Jobs {
  explicit Jobs(const std::string& name) : folder(name), spec(test_job(folder.path(), "")) {
    write_test_records(folder.path() / "train.rec", 8, 2);
    spec.data.test.clear();
  }
  Symbol dense(const std::string& name, const Symbol& x) {
    return composer.call("fully_connected", name, {x}, {{"num_hidden", "4"}});
  }
  Symbol cast(const Symbol& x, const char* dtype) {
    return composer.call("cast", "", {x}, {{"dtype", dtype}});
  }
  base::Status open(const Symbol& network) {
    spec.model.symbol_json = composer.finish(network)->to_json();
    return open_job(spec, tests::test_operators()).status();
  }

  TestFolder folder;
  schemas::JobSpec spec;
  symbol::Composer composer{tests::test_operators()};
  const Symbol data = composer.variable("data");
};

TEST_CASE("a job whose parameters are all frozen is refused", "[job]") {
  Jobs jobs("job-frozen");
  const Symbol net = jobs.composer.call("softmax_output", "loss", {jobs.dense("fc", jobs.data)});
  CHECK(jobs.open(net).ok());
  jobs.spec.train.keys = {{"*", 0.0, {}}};
  const base::Status refused = jobs.open(net);
  CHECK(refused.code() == base::Errc::invalid_argument);
  CHECK_THAT(refused.text(), Catch::Contains("nothing to learn"));
}

TEST_CASE("loss and accuracy are read from probabilities, one row for each sample", "[job]") {
  Jobs jobs("job-scored");
  symbol::Composer& c = jobs.composer;
  const Symbol fc = jobs.dense("fc", jobs.data);
  CHECK_THAT(jobs.open(c.call("softmax_cross_entropy", "loss", {fc})).text(),
             Catch::Contains("output loss_output has shape (1,) for two samples: loss and accuracy "
                             "are read from the first output, which must be (samples, classes)"));
  const Symbol loss = c.call("softmax_output", "loss", {fc});
  const auto seen = [&](const Symbol& first) {
    const std::vector<Symbol> outputs = {c.call("stop_gradient", "seen", {first}), loss};
    return jobs.open(Symbol::group(outputs));
  };
  for (const Symbol& first : {fc, c.call("log_softmax", "", {fc}), jobs.data}) {
    CHECK_THAT(seen(first).text(), Catch::Contains("output seen_output holds no probabilities"));
  }
  CHECK(seen(c.call("softmax", "", {fc})).ok());
  // What a softmax somewhere before the last weights gives says nothing of the output.
  const Symbol gate = c.call("softmax", "", {jobs.dense("gate", jobs.data)});
  const Symbol gated = c.call("multiply", "", {c.call("flatten", "", {jobs.data}), gate});
  CHECK_THAT(seen(jobs.dense("last", gated)).text(),
             Catch::Contains("output seen_output holds no probabilities"));
  CHECK(seen(c.call("reshape", "", {loss}, {{"shape", "(0, 2, 2)"}})).ok());
}

TEST_CASE("records of a symbol's job have labels of its classes, unless some are left out",
          "[job]") {
  Jobs jobs("job-labels");
  const auto classes = [&](const ops::Attributes& reading) {
    const Symbol net =
        jobs.composer.call("softmax_output", "loss", {jobs.dense("fc", jobs.data)}, reading);
    jobs.spec.model.symbol_json = jobs.composer.finish(net)->to_json();
    return open_job(jobs.spec, tests::test_operators()).value()->samples.classes;
  };
  CHECK(classes({}) == 4);
  CHECK(classes({{"use_ignore", "False"}, {"ignore_label", "2"}}) == 4);
  CHECK(classes({{"use_ignore", "True"}}) == 0);
}

TEST_CASE("a job names the parameter that it cannot train", "[job]") {
  Jobs jobs("job-parameters");
  symbol::Composer& c = jobs.composer;
  const auto refused = [&](const Symbol& logits) {
    return jobs.open(c.call("softmax_output", "loss", {logits})).text();
  };
  const Symbol sum = c.call("add_elemwise", "", {jobs.dense("fc", jobs.data), c.variable("w")});
  CHECK_THAT(refused(sum),
             Catch::Contains("parameter 'w' has shape (1, 4) for one sample and (2, 4) for two"));
  const Symbol narrow = jobs.dense("h", jobs.cast(jobs.data, "float16"));
  CHECK_THAT(refused(jobs.cast(narrow, "float32")),
             Catch::Contains("parameter 'h_weight' is f16; those of a job are f32 or f64"));
}

}  // namespace
}  // namespace troupe::train
