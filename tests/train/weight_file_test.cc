// SPDX-License-Identifier: Apache-2.0
// First weights from a file: which tensors it must have, and reads of parts of them.
#include "train/weight_file.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/job_files.h"
#include "tests/support/test_runtime.h"

namespace troupe::train {
namespace {

using base::Errc;
using Catch::Contains;

/// A job, and the file that its weights come from.
struct Weights {
  TestFolder folder{"weight-file"};
  std::filesystem::path path = folder.path() / "weights.safetensors";
  std::map<std::string, std::vector<float>> values;
  std::shared_ptr<const Job> job;

  Weights() {
    write_test_records(folder.path() / "train.rec", 40, 8);
    write_test_records(folder.path() / "test.rec", 8, 8);
    schemas::JobSpec spec = test_job(folder.path(), "tiny-bn");
    spec.train.weights = path;
    job = open_job(spec, tests::test_operators()).value();
    for (const schemas::KeyInfo& key : job->keys.keys) {
      std::vector<float>& of_key = values[key.name];
      of_key.resize(static_cast<std::size_t>(key.shape.elements()));
      std::iota(of_key.begin(), of_key.end(), static_cast<float>(values.size()));
    }
  }
  /// Writes all but `left_out`; `extra` in front.
  void write(const std::string& left_out = "", const std::vector<ndarray::RawTensor>& extra = {}) {
    std::vector<ndarray::RawTensor> tensors = extra;
    for (const schemas::KeyInfo& key : job->keys.keys) {
      if (key.name == left_out) continue;
      tensors.push_back(
          {key.name, key.dtype, key.shape, std::as_bytes(std::span(values.at(key.name)))});
    }
    REQUIRE(ndarray::write_safetensors(path, tensors).ok());
  }
  base::Status refused() const { return WeightFile::open(*job).status(); }
};

TEST_CASE("parts of tensors are read from their places", "[weight_file]") {
  Weights weights;
  const std::vector<float> other = {1, 2, 3};
  const std::string& left_out = weights.job->keys.keys.back().name;
  weights.write(left_out,
                {{"not_ours", base::DType::f32, base::Shape{3}, std::as_bytes(std::span(other))}});
  const auto file = WeightFile::open(*weights.job);
  INFO(file.status().text());
  REQUIRE(file.ok());
  CHECK_FALSE(file->has("not_ours"));
  CHECK_FALSE(file->has(left_out));
  for (const schemas::KeyInfo& key : weights.job->keys.keys) {
    if (key.name == left_out) continue;
    REQUIRE(file->has(key.name));
    const std::vector<float>& expected = weights.values.at(key.name);
    const std::size_t begin = expected.size() / 3;
    std::vector<float> part(expected.size() - begin);
    REQUIRE(
        file->read(key.name, begin * sizeof(float), std::as_writable_bytes(std::span(part))).ok());
    CHECK(part == std::vector<float>(expected.begin() + static_cast<std::ptrdiff_t>(begin),
                                     expected.end()));
  }
}

TEST_CASE("a file of other tensors, or of none, is refused by its name", "[weight_file]") {
  Weights weights;
  CHECK(weights.refused().code() == Errc::not_found);
  CHECK_THAT(weights.refused().text(), Contains(weights.path.string()));
  for (const std::string& text :
       {std::string(), std::string("x"), std::string("\x08\0\0\0\0\0\0\0notjson!", 16)}) {
    std::ofstream(weights.path) << text;
    CHECK(weights.refused().code() == Errc::data_loss);
    CHECK_THAT(weights.refused().text(), Contains(weights.path.string()));
  }
  const std::vector<float> four(4);
  const auto bytes = std::as_bytes(std::span(four));
  const std::vector<ndarray::RawTensor> foreign = {
      {"conv1.weight", base::DType::f32, base::Shape{4}, bytes}};
  REQUIRE(ndarray::write_safetensors(weights.path, foreign).ok());
  CHECK_THAT(weights.refused().text(), Contains("holds none of the network's tensors ('"));
  const std::string& first = weights.job->keys.keys.front().name;
  weights.write(first, {{first, base::DType::f32, base::Shape{2, 2}, bytes}});
  CHECK(weights.refused().code() == Errc::invalid_argument);
  CHECK_THAT(weights.refused().text(), Contains("'" + first + "' has shape (2, 2) and dtype f32"));
}

TEST_CASE("a tensor of a foreign dtype is refused only where the network has it", "[weight_file]") {
  Weights weights;
  const std::vector<float> other = {1, 2, 3};
  const auto bytes = std::as_bytes(std::span(other));
  weights.write("", {{"counter", base::DType::f32, base::Shape{3}, bytes}});
  std::ifstream in(weights.path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto rename_dtype = [&](const std::string& key) {
    const std::size_t at = text.find("\"F32\"", text.find("\"" + key + "\""));
    text.replace(at, 5, "\"U16\"");
    std::ofstream(weights.path, std::ios::binary) << text;
  };
  rename_dtype("counter");
  CHECK(WeightFile::open(*weights.job).ok());
  const std::string& first = weights.job->keys.keys.front().name;
  rename_dtype(first);
  CHECK(weights.refused().code() == Errc::invalid_argument);
  CHECK_THAT(weights.refused().text(), Contains("'" + first + "' has dtype 'U16', the network's"));
}

TEST_CASE("a file that became shorter is said to be damaged", "[weight_file]") {
  Weights weights;
  weights.write();
  const auto file = WeightFile::open(*weights.job);
  REQUIRE(file.ok());
  std::filesystem::resize_file(weights.path, std::filesystem::file_size(weights.path) - 4);
  const schemas::KeyInfo* last = nullptr;
  for (const schemas::KeyInfo& key : weights.job->keys.keys) last = &key;
  std::vector<std::byte> all(static_cast<std::size_t>(last->shape.elements()) * sizeof(float));
  CHECK(file->read(last->name, 0, all).code() == Errc::data_loss);
}

}  // namespace
}  // namespace troupe::train
