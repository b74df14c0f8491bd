// SPDX-License-Identifier: Apache-2.0
// --json of every verb that runs without a cluster: one valid document that says what the text
// says, whatever bytes stand in names and paths. Jobs of a cluster are in job_report_test.cc.
#include "apps/json_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "apps/program.h"
#include "base/units.h"
#include "monitoring/families.h"
#include "tests/apps/run_words.h"
#include "tests/support/catch.h"
#include "tests/support/job_files.h"

namespace troupe::apps {
namespace {

using Catch::Contains;
using Words = std::vector<std::string>;

/// The same command as text and as JSON. Exit codes and messages are the same.
struct Both {
  explicit Both(Words words) : text(run(words)) {
    words.emplace_back("--json");
    const Run second = run(words);
    CHECK(second.code == text.code);
    CHECK(second.err == text.err);
    REQUIRE(Json::accept(second.out));
    json = Json::parse(second.out);
  }
  Run text;
  Json json;
};

const std::string kExample = std::string(TROUPE_SOURCE_DIR) + "/examples/fashion-lenet.toml";

/// Not UTF-8, with a quote, a backslash, a line break and an escape.
const std::string kWildName = "a\"b\\c\n\x1b[2J\xff\xc3(\x7f\xc2\x9b\xc3\x9b.rec";

TEST_CASE("texts and numbers of every kind give valid JSON", "[json]") {
  const Json document = {{"text", kWildName},
                         {"none", json_or_null(std::string())},
                         {"nan", std::nan("")},
                         {"infinity", std::numeric_limits<double>::infinity()},
                         {"large", std::numeric_limits<std::uint64_t>::max()},
                         {"known", json_or_null(std::optional<int>(3))},
                         {"unknown", json_or_null(std::optional<int>())}};
  const std::string text = json_text(document);
  CHECK(std::none_of(text.begin(), text.end(), [](char c) { return c == '\x1b' || c == '\x7f'; }));
  CHECK(text.find("\xc2\x9b") == std::string::npos);
  CHECK(text.back() == '\n');
  const Json read = Json::parse(text);
  CHECK(read["text"] == "a\"b\\c\n\x1b[2J\xef\xbf\xbd\xef\xbf\xbd(\x7f\xc2\x9b\xc3\x9b.rec");
  for (const char* key : {"none", "nan", "infinity", "unknown"}) CHECK(read[key].is_null());
  CHECK(read["large"] == std::numeric_limits<std::uint64_t>::max());
  CHECK(read["known"] == 3);
  CHECK(read.begin().key() == "text");  // in the order given
}

TEST_CASE("version and metrics are the same facts as JSON", "[json]") {
  const Both version({"version"});
  CHECK_THAT(version.text.out,
             Catch::StartsWith(fmt::format("{} {}\n", version.json["program"].get<std::string>(),
                                           version.json["version"].get<std::string>())));
  const Json& gpu = version.json["gpu"];
  CHECK(gpu["devices"].empty() == gpu["problem"].is_string());
  if (gpu["problem"].is_string()) {
    CHECK_THAT(version.text.out, Contains("no GPU: " + gpu["problem"].get<std::string>()));
  }
  const Both metrics({"metrics"});
  CHECK(metrics.json["metrics"].size() == monitoring::families().size());
  std::string lines;
  for (const Json& family : metrics.json["metrics"]) {
    std::string labels;
    for (const Json& label : family["labels"]) {
      labels.append(labels.empty() ? "{" : ",").append(label.get<std::string>());
    }
    if (!labels.empty()) labels += "}";
    lines += fmt::format("{}{} {} {}\n", family["name"].get<std::string>(), labels,
                         family["type"].get<std::string>(), family["help"].get<std::string>());
  }
  CHECK(lines == metrics.text.out);
}

TEST_CASE("config check tells a job, or errors with their places, as JSON", "[json]") {
  const Both good({"config", "check", kExample});
  CHECK(good.text.code == 0);
  CHECK(good.json["valid"] == true);
  CHECK(good.json["errors"].empty());
  CHECK(good.json["warnings"].empty());
  const Both warned({"config", "check", kExample, "--set", "memory.device_limit=1g"});
  CHECK(warned.json["valid"] == true);
  REQUIRE(warned.json["warnings"].size() == 1);
  CHECK(warned.json["warnings"][0]["key"] == "memory.device_limit");
  const Json& job = good.json["job"];
  CHECK(job["name"] == "fashion-lenet");
  CHECK(job["model"] == "lenet");
  CHECK_THAT(good.text.out,
             Contains(base::format_counted(job["machines"], "machine") + " x " +
                      base::format_counted(job["workers_per_machine"], "worker") + ", " +
                      base::format_counted(job["parameter_servers"], "parameter server") + ", " +
                      base::format_counted(job["epochs"], "epoch")));
  CHECK(good.json["file"] == kExample);

  const auto path = std::filesystem::temp_directory_path() / "troupe-json-test.toml";
  std::filesystem::copy_file(kExample, path, std::filesystem::copy_options::overwrite_existing);
  std::ofstream(path, std::ios::app) << "\n[nonsense]\nx = 1\n";
  const Both bad({"config", "check", path.string(), "--set", "data.batch=12B"});
  CHECK(bad.text.code == 3);
  CHECK(bad.json["valid"] == false);
  CHECK(bad.json["job"].is_null());
  REQUIRE(bad.json["errors"].size() == 2);
  const Json& unknown = bad.json["errors"][0];
  CHECK(unknown["file"] == path.string());
  CHECK(unknown["line"].get<int>() > 1);
  CHECK(unknown["column"].get<int>() >= 1);
  CHECK(unknown["key"] == "nonsense");
  CHECK_THAT(unknown["text"].get<std::string>(), Contains("unknown key"));
  CHECK(bad.json["errors"][1] == Json({{"file", "--set data.batch=12B"},
                                       {"line", nullptr},
                                       {"column", nullptr},
                                       {"key", "data.batch"},
                                       {"text", "expected integer >= 1, got \"12B\""}}));
  CHECK_THAT(bad.text.err,
             Contains(fmt::format("{}:{}:{}: error: nonsense: unknown key", path.string(),
                                  unknown["line"].get<int>(), unknown["column"].get<int>())));
  const Both rules(
      {"config", "check", kExample, "--set", "train.keys=[{match = \"cnov*\", lr_mult = 0.0}]"});
  std::filesystem::remove(path);
  CHECK(rules.json["valid"] == rules.json["errors"].empty());
  const Both absent({"config", "check", "/nowhere/\xff.toml"});
  CHECK(absent.json["errors"][0]["file"].is_null());
  CHECK_THAT(absent.json["errors"][0]["text"].get<std::string>(), Contains("/nowhere/"));
}

TEST_CASE("rules that match no parameter are an error of the document, too", "[json]") {
  const TestFolder folder("json");
  const auto path = folder.path() / "job.toml";
  std::filesystem::copy_file(kExample, path);
  std::ofstream(path, std::ios::app) << "\n[[train.keys]]\nmatch = \"cnov*\"\nlr_mult = 0.0\n";
  const Both bad({"config", "check", path.string()});
  CHECK(bad.json["valid"] == false);
  REQUIRE(bad.json["errors"].size() == 1);
  CHECK(bad.json["errors"][0]["file"] == path.string());
  CHECK(bad.text.err == path.string() +
                            ": error: " + bad.json["errors"][0]["text"].get<std::string>() +
                            "\n1 error; this is no job that can run\n");
}

TEST_CASE("record files are packed, indexed and checked with JSON", "[json]") {
  const TestFolder folder("json");
  const auto path = folder.path() / kWildName;
  train::write_test_records(path, 20, 4);
  const Both good({"data", "check", path.string(), "--decode"});
  CHECK(good.text.code == 0);
  CHECK_THAT(good.text.out,
             Contains(fmt::format("{} records, {} bytes, checksum {}, {} images, the first",
                                  good.json["records"].get<int>(), good.json["bytes"].get<int>(),
                                  good.json["checksum"].get<std::string>(),
                                  good.json["images"].get<int>())));
  CHECK(good.json["records"] == 20);
  CHECK(good.json["first_image"] == Json({{"channels", 1}, {"height", 4}, {"width", 4}}));
  CHECK(good.json["first_bad"].is_null());
  CHECK(good.json["index_fault"].is_null());
  CHECK_THAT(good.json["file"].get<std::string>(), Contains("a\"b\\c\n"));
  CHECK_THAT(good.text.out, Contains("a\"b\\c??[2J"));
  const Both index({"data", "index", path.string()});
  CHECK(index.json["records"] == 20);
  const std::uint64_t whole = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, whole - 5);
  const Both bad({"data", "check", path.string()});
  CHECK(bad.text.code == 3);
  CHECK(bad.json["damaged_places"] == 1);
  CHECK_THAT(bad.text.out, Contains(fmt::format("first bad offset {}: ",
                                                bad.json["first_bad"]["offset_bytes"].get<int>())));
  CHECK(bad.json["bytes"] == whole - 5);
  const Run none = run({"data", "check", "/nowhere.rec", "--json"});
  CHECK(none.code == 5);
  CHECK(none.out.empty());
  const Run pack = run({"data", "pack", "fashion-mnist", "--source", "/nowhere", "--out",
                        (folder.path() / "packed").string(), "--json"});
  CHECK(pack.code == 5);
  CHECK(pack.out.empty());
}

TEST_CASE("model inspect has the table's layers as JSON", "[json]") {
  const Both lenet({"model", "inspect", "lenet", "--classes", "7"});
  CHECK(lenet.json["parameters"] == 429'577);
  CHECK(lenet.json["batch"] == 32);
  std::size_t shown = 0;
  for (const Json& layer : lenet.json["layers"]) {
    CHECK_THAT(lenet.text.out, Contains(fmt::format("\n{} ", layer["name"].get<std::string>())));
    if (layer["name"] != "conv2") continue;
    ++shown;
    CHECK(layer["operator"] == "convolution");
    CHECK(layer["output_shape"] == Json({32, 50, 8, 8}));
    CHECK(layer["parameters"] == 25'050);
  }
  CHECK(shown == 1);
  CHECK_THAT(lenet.text.out,
             Contains(base::format_bytes(lenet.json["train_bytes"]) + " for training (" +
                      base::format_bytes(lenet.json["unshared_bytes"]) + " unshared), " +
                      base::format_bytes(lenet.json["predict_bytes"])));
  CHECK_THAT(
      lenet.text.out,
      Contains("live set        " + base::format_bytes(lenet.json["live_set_bytes"]) +
               " for training, " + base::format_bytes(lenet.json["predict_live_set_bytes"])));
  CHECK(lenet.json["live_set_bytes"] <= lenet.json["train_bytes"]);
  CHECK(lenet.json["recompute_seconds"] < lenet.json["step_seconds"]);
  CHECK(lenet.json["recomputed"].is_number_unsigned());
  CHECK(lenet.json["reorders"].size() > 0);
  CHECK(lenet.json["forward_flops"].get<double>() > 0);
  CHECK(run({"model", "inspect", "lenet", "--json", "--dot"}).code == 2);
}

TEST_CASE("model list has the table's networks as JSON", "[json]") {
  const Both list({"model", "list"});
  CHECK(list.json["models"].size() > 20);
  for (const Json& model : list.json["models"]) {
    CHECK_THAT(list.text.out, Contains(fmt::format("{:<16} ", model["name"].get<std::string>())));
  }
  const Json& last = list.json["models"].back();
  CHECK(last["input_shape"] == Json({3, 224, 224}));
  CHECK(last["classes"] == 1000);
}

TEST_CASE("a run and its checkpoint are told as JSON", "[json]") {
  const TestFolder folder("json");
  train::write_test_records(folder.path() / "train.rec", 64, 8);
  train::write_test_records(folder.path() / "test.rec", 16, 8);
  const auto job = folder.path() / "job.toml";
  std::ofstream(job) << "name = \"small\"\n[model]\nnetwork = \"mlp\"\nclasses = 4\n[data]\n"
                     << "train = \"" << (folder.path() / "train.rec").string() << "\"\ntest = \""
                     << (folder.path() / "test.rec").string() << "\"\nbatch = 8\n[train]\n"
                     << "epochs = 1\n[checkpoint]\ndir = \"" << (folder.path() / "out").string()
                     << "\"\n";
  const Run first = run({"run", job.string(), "--json"});
  INFO(first.err);
  REQUIRE(first.code == 0);
  const Json result = Json::parse(first.out);
  CHECK(result["job"] == "small");
  CHECK(result["trained"] == true);
  CHECK(result["test"]["images"] == 16);
  CHECK(result["steps_total"] == 8);
  const Both show({"checkpoint", "show", (folder.path() / "out").string()});
  CHECK(show.json["step"] == 8);
  CHECK(show.json["job"] == "small");
  CHECK(show.json["checkpoint"].get<std::string>() ==
        result["checkpoint"].get<std::string>() + ".manifest");
  CHECK_THAT(show.text.out, Contains(show.json["checkpoint"].get<std::string>()));
  CHECK_THAT(show.text.out, Contains(show.json["numerics"]["build"].get<std::string>()));
  for (const Json& file : show.json["files"]) {
    CHECK_THAT(show.text.out,
               Contains(file["name"].get<std::string>() + " " + base::format_bytes(file["bytes"])));
  }
  for (const Json& key : show.json["keys"]) {
    CHECK_THAT(show.text.out, Contains("\nkey         " + key["name"].get<std::string>() + " "));
  }
  CHECK(show.json["keys"].size() > 1);
  const Both hash({"checkpoint", "hash", (folder.path() / "out").string()});
  CHECK(hash.json["sha256"].get<std::string>() + "\n" == hash.text.out);
  CHECK(hash.json["checkpoint"] == show.json["checkpoint"]);
}

}  // namespace
}  // namespace troupe::apps
