// SPDX-License-Identifier: Apache-2.0
// Jobs of a cluster as text and JSON: of structs, and by the verbs against a coordinator in this
// process.
#include "apps/job_report.h"

#include <atomic>
#include <cmath>
#include <future>
#include <sstream>
#include <thread>

#include "apps/program.h"
#include "cluster/coordinator_node.h"
#include "tests/apps/run_words.h"
#include "tests/support/catch.h"
#include "tests/support/test_folder.h"

namespace troupe::apps {
namespace {

using Catch::Contains;
using schemas::JobInfo;
using schemas::JobPhase;

TEST_CASE("what is not known of a job is '-' in text and null in JSON", "[job_report]") {
  JobInfo job;
  job.id = "lenet";
  job.name = "fashion";
  job.text = "waits for 2 worker slots";
  job.age_ms = 1'500;
  CHECK(job_lines(job) ==
        "id lenet\nstate pending\nstep -\nloss -\nnote waits for 2 worker slots\n");
  CHECK(json_of(job) == Json({{"id", "lenet"},
                              {"name", "fashion"},
                              {"state", "pending"},
                              {"no_room", false},
                              {"step", nullptr},
                              {"steps_total", nullptr},
                              {"trained", nullptr},
                              {"samples", 0},
                              {"loss", nullptr},
                              {"samples_per_second", nullptr},
                              {"test_accuracy", nullptr},
                              {"checkpoint", nullptr},
                              {"note", "waits for 2 worker slots"},
                              {"age_seconds", 1.5}}));
  job.phase = JobPhase::succeeded;
  job.step = job.steps_total = 938;
  job.samples = 60'000;
  job.loss = 0.25;
  job.accuracy = 0.875;
  job.samples_per_second = 1'749.5;
  job.checkpoint = "/out/step-938-g1";
  job.text.clear();
  CHECK(job_lines(job) ==
        "id lenet\nstate succeeded\nstep 938/938\nloss 0.2500\ntest accuracy 0.8750\n"
        "checkpoint /out/step-938-g1\n");
  CHECK(job_result_lines(job) == "test accuracy 0.8750\ncheckpoint /out/step-938-g1\n");
  const Json json = json_of(job);
  CHECK(json["state"] == "succeeded");
  CHECK(json["trained"] == true);
  CHECK(json["step"] == 938);
  CHECK(json["loss"] == 0.25);
  CHECK(json["test_accuracy"] == 0.875);
  CHECK(json["samples_per_second"].is_null());  // it has ended
  job.phase = JobPhase::running;
  CHECK(json_of(job)["samples_per_second"] == 1'749.5);
  CHECK(json["checkpoint"] == "/out/step-938-g1");
  CHECK(json["note"].is_null());
}

TEST_CASE("what others have named is shown, and obeyed by no terminal", "[job_report]") {
  JobInfo job;
  job.id = "a";
  job.phase = JobPhase::failed;
  job.text = "no\nb succeeded\x1b[2K";
  job.checkpoint = "/ck\x1b]0;title\x07\u009b31m";
  CHECK(job_table(std::span(&job, 1)).ends_with(" no?b succeeded?[2K\n"));
  CHECK(job_lines(job) ==
        "id a\nstate failed\nstep -\nloss -\ncheckpoint /ck?]0;title??31m\n"
        "note no?b succeeded?[2K\n");
  CHECK(job_end_line(job) == "a failed: no?b succeeded?[2K\n");
}

TEST_CASE("a job that had nothing left to train says so", "[job_report]") {
  JobInfo job;
  job.id = "again";
  job.phase = JobPhase::running;
  job.step = job.steps_total = 938;
  CHECK(json_of(job)["trained"].is_null());
  job.phase = JobPhase::succeeded;
  CHECK(json_of(job)["trained"] == true);  // its steps skipped every record, and were steps
  job.done_before = true;
  job.checkpoint = "/out/step-938-g1";
  CHECK(json_of(job)["trained"] == false);
  CHECK(job_result_lines(job) ==
        "all 938 steps were done before; nothing was trained\ncheckpoint /out/step-938-g1\n");
}

TEST_CASE("a table of jobs and its JSON have the same rows", "[job_report]") {
  schemas::JobList list;
  std::vector<JobInfo>& jobs = list.jobs;
  jobs.resize(2);
  jobs[0].id = "quote\"back\\slash\nline\x1b\xff";
  jobs[0].checkpoint = "/out/\xc3(";
  jobs[0].loss = std::nan("");
  jobs[0].samples = 1;
  jobs[1].id = "b";
  jobs[1].phase = JobPhase::failed;
  const std::string table = job_table(jobs);
  CHECK_THAT(table, Contains("\nb ") && Contains(" failed "));
  const std::string text = json_text(json_of(list));
  REQUIRE(Json::accept(text));
  const Json json = Json::parse(text);
  REQUIRE(json["jobs"].size() == 2);
  CHECK(json["jobs"][0]["id"] == "quote\"back\\slash\nline\x1b\xef\xbf\xbd");
  CHECK(json["jobs"][0]["loss"].is_null());
  CHECK(json["jobs"][1]["state"] == "failed");
  CHECK(json["note"].is_null());
  list.text = "3 older jobs left off";
  CHECK(json_of(list)["note"] == "3 older jobs left off");
}

/// A coordinator without agents: what is submitted waits.
class Waiting {
 public:
  explicit Waiting(const std::filesystem::path& folder) {
    cluster::CoordinatorNodeOptions options;
    options.listen = "127.0.0.1:0";
    options.pages = {"127.0.0.1", 0};
    options.state_folder = (folder / "state").string();
    options.version = program_version();
    options.stop = [this] { return stop_.load(); };
    options.find_start = [](const control::FindStart&) { return control::StartFound(); };
    options.files.probe = [](const schemas::FolderProbe&) { return schemas::FolderProbeResult(); };
    options.ready = [this](const std::string& listen, const std::string&) {
      ready_.set_value(listen);
    };
    thread_ =
        std::thread([this, options] { status_ = cluster::run_coordinator(options, metrics_); });
    address = ready_.get_future().get();
  }
  ~Waiting() {
    stop_ = true;
    thread_.join();
    CHECK(status_.ok());
  }
  std::string address;

 private:
  monitoring::Metrics metrics_;
  std::atomic<bool> stop_{false};
  std::promise<std::string> ready_;
  base::Status status_;
  std::thread thread_;
};

TEST_CASE("job verbs print one document each", "[job_report]") {
  const TestFolder folder("job_report");
  const Waiting coordinator(folder.path());
  const auto run = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"--coordinator", coordinator.address, "job"});
    return apps::run(words);
  };
  const std::string example = std::string(TROUPE_SOURCE_DIR) + "/examples/fashion-lenet.toml";
  const std::string data = (folder.path() / "none.rec").string();
  const Run submitted =
      run({"submit", example, "--id", "one", "--json", "--set", "data.train=" + data});
  CHECK(submitted.code == 0);
  CHECK(Json::parse(submitted.out) == Json({{"id", "one"}}));
  CHECK_THAT(submitted.err, Contains("follow it with: troupe --coordinator " + coordinator.address +
                                     " job wait one\n"));
  CHECK_THAT(submitted.err,
             Contains("warning: data.train: " + data + ": there is no such file on this machine"));
  const std::string here = (folder.path() / "state/lock").string();
  const Run found =
      run({"submit", example, "--id", "two", "--set", "data.train=" + here, "--set", "data.test="});
  CHECK_THAT(found.err, !Contains("warning"));
  CHECK(run({"stop", "two"}).code == 0);
  CHECK(run({"list", "--json"}).code == 0);
  const Json list = Json::parse(run({"list", "--json"}).out);
  REQUIRE(list["jobs"].size() == 2);
  const Json status = Json::parse(run({"status", "one", "--json"}).out);
  CHECK(status["id"] == "one");
  CHECK(status["name"] == "fashion-lenet");
  CHECK(status["state"] == "pending");
  const std::string text = run({"status", "one"}).out;
  CHECK_THAT(text, Contains("state pending\n") &&
                       Contains("note " + status["note"].get<std::string>() + "\n"));
  const Json stopped = Json::parse(run({"stop", "one", "--json"}).out);
  CHECK(stopped["state"] == "stopped");
  const Run waited = run({"wait", "one", "--json"});
  CHECK(waited.code == 9);
  CHECK(Json::parse(waited.out)["note"] == "stopped before it began");
  CHECK(waited.err == "error: job one stopped: stopped before it began\n");
  const Run unknown = run({"status", "twelve", "--json"});
  CHECK(unknown.code == 5);
  CHECK(unknown.out.empty());
  // What was meant, if that is near.
  const Run meant = run({"status", "noe"});
  CHECK(meant.code == 5);
  CHECK_THAT(meant.err, Contains("'noe'; did you mean 'one'?"));
  CHECK_THAT(unknown.err, !Contains("did you mean"));
}

}  // namespace
}  // namespace troupe::apps
