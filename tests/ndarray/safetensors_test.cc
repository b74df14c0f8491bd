// SPDX-License-Identifier: Apache-2.0
// safetensors: round trips, the format's bytes, and what the strict reader refuses.
#include "ndarray/safetensors.h"

#include <cstring>
#include <filesystem>
#include <random>

#include "base/file.h"
#include "tests/support/catch.h"
#include "tests/support/safetensors_bytes.h"
#include "tests/support/test_runtime.h"

namespace troupe::ndarray {
namespace {

using base::DType;
using base::Errc;
using base::Shape;
using Bytes = std::vector<std::byte>;

Bytes file_of(const std::string& header, std::size_t data) {
  const std::uint64_t length = header.size();
  Bytes bytes(8 + header.size() + data);
  std::memcpy(bytes.data(), &length, 8);
  std::memcpy(bytes.data() + 8, header.data(), header.size());
  return bytes;
}

Bytes sample() {
  static const float values[] = {1, 2, 3, 4, 5, 6};
  static const std::int64_t count[] = {42};
  const RawTensor tensors[] = {{"w", DType::f32, Shape{2, 3}, std::as_bytes(std::span(values))},
                               {"none", DType::f16, Shape{0, 7}, {}},
                               {"step", DType::i64, Shape{}, std::as_bytes(std::span(count))}};
  return tests::safetensors_bytes(tensors, {{"format", "test"}});
}

TEST_CASE("tensors and metadata come back") {
  const Bytes file = sample();
  std::map<std::string, std::string> metadata;
  const std::vector<RawTensor> tensors = parse_safetensors(file, &metadata).value();
  CHECK(metadata == std::map<std::string, std::string>{{"format", "test"}});
  REQUIRE(tensors.size() == 3);
  CHECK(tensors[0].name == "w");
  CHECK(tensors[0].shape == Shape{2, 3});
  CHECK(tensors[0].bytes.size() == 24);
  CHECK(tensors[2].shape == Shape{});
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);
  CHECK(length % 8 == 0);
  const std::string header(reinterpret_cast<const char*>(file.data()) + 8, length);
  CHECK(header.find(R"("w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]})") != header.npos);
}

TEST_CASE("arrays are saved and loaded by file") {
  tests::TestRuntime test;
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / "troupe_safetensors_test.safetensors";
  const std::vector<double> values{1.5, -2};
  const std::map<std::string, NDArray> arrays{
      {"a", NDArray::from<double>(test.runtime, {2}, values).value()},
      {"b", NDArray::zeros(test.runtime, {3, 1}).value()}};
  REQUIRE(save_arrays(path, arrays).ok());
  const auto loaded = load_arrays(test.runtime, path).value();
  CHECK(loaded.at("a").to_vector<double>().value() == values);
  CHECK(loaded.at("b").shape() == Shape{3, 1});
  REQUIRE(base::write_file_atomically(path, Bytes(5)).ok());
  const base::Status fault = load_arrays(test.runtime, path).status();
  CHECK(fault.code() == Errc::data_loss);
  CHECK(fault.text().find(path.string()) == 0);
  std::filesystem::remove(path);
  CHECK(load_arrays(test.runtime, path).status().code() == Errc::not_found);
}

TEST_CASE("the reader refuses what is not exactly the format") {
  const auto refused = [](const std::string& header, std::size_t data) {
    const base::Status status = parse_safetensors(file_of(header, data)).status();
    INFO(header);
    CHECK(status.code() == Errc::data_loss);
    return status.text();
  };
  CHECK(parse_safetensors({}).status().code() == Errc::data_loss);
  CHECK(parse_safetensors(file_of("{}", 0)).ok());
  refused("{}", 1);
  refused("[]", 0);
  refused("{", 0);
  refused(" {}", 0);
  refused(R"({"a":7})", 0);
  const std::string a = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  CHECK(parse_safetensors(file_of("{" + a + "}", 8)).ok());
  refused("{" + a + "}", 7);
  refused("{" + a + "}", 9);
  CHECK(refused("{" + a + "," + a + "}", 8).find("twice") != std::string::npos);
  // Nothing that is deep hides a name.
  std::string deep = R"("a":{"x":1})";
  for (int i = 0; i < 9; ++i) deep = R"("a":{)" + deep + "}";
  CHECK(refused("{" + deep + "," + a + "}", 8).find("not JSON of this format") !=
        std::string::npos);
  refused("{" + a + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8);
  refused("{" + a + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}})", 16);
  refused(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8);
  refused(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8);
  refused(R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", 8);
  refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8);
  refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})", 8);
  refused(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4611686018427387904],)"
          R"("data_offsets":[0,8]}})",
          8);
  refused(R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]}})", 8);
  refused(R"({"__metadata__":{"a":1}})", 0);
  Bytes long_header = file_of("{}", 0);
  long_header[6] = std::byte{0xff};
  CHECK(parse_safetensors(long_header).status().text().find("limit") != std::string::npos);
}

TEST_CASE("a tensor that no array can hold has its place, and cannot be loaded") {
  const std::string a = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  const std::string b = R"("b":{"dtype":"F8_E4M3","shape":[3],"data_offsets":[8,11]})";
  const std::string c = R"("c":{"dtype":"I8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[11,12]})";
  const std::string text = "{" + a + "," + b + "," + c + "}";
  const SafetensorsHeader header = parse_safetensors_header(text, 12).value();
  REQUIRE(header.tensors.size() == 3);
  CHECK(header.tensors[0].foreign.empty());
  CHECK(header.tensors[1].foreign == "dtype 'F8_E4M3'");
  CHECK(header.tensors[2].foreign == "9 axes");
  CHECK(header.tensors[2].end == 12);
  const base::Status status = parse_safetensors(file_of(text, 12)).status();
  CHECK(status.code() == Errc::unimplemented);
  CHECK(status.text() == "safetensors: tensor 'b' has dtype 'F8_E4M3', which cannot be read");
}

TEST_CASE("of a file of another kind no byte is quoted") {
  // The first eight bytes would be the header's length; whoever reads the error may not read them.
  for (const std::string secret : {"12345678 and more", "\x09\x09\x00\x00\x00\x00\x00\x00{}"}) {
    Bytes bytes(secret.size());
    std::memcpy(bytes.data(), secret.data(), secret.size());
    std::uint64_t length = 0;
    std::memcpy(&length, secret.data(), 8);
    const std::string text = parse_safetensors(bytes).status().text();
    INFO(text);
    CHECK(text.find(std::to_string(length)) == std::string::npos);
  }
}

TEST_CASE("the writer refuses doubled names and wrong sizes") {
  const Bytes bytes(8);
  const RawTensor twice[] = {{"a", DType::f32, Shape{2}, bytes},
                             {"a", DType::f32, Shape{2}, bytes}};
  CHECK(encode_safetensors_head(twice).status().code() == Errc::invalid_argument);
  const RawTensor small[] = {{"a", DType::f32, Shape{3}, bytes}};
  CHECK(encode_safetensors_head(small).status().code() == Errc::invalid_argument);
  const RawTensor garbage[] = {{"\xff\xfe", DType::f32, Shape{2}, bytes}};
  CHECK(encode_safetensors_head(garbage).status().code() == Errc::invalid_argument);
  const RawTensor taken[] = {{"__metadata__", DType::f32, Shape{2}, bytes}};
  CHECK(encode_safetensors_head(taken).status().code() == Errc::invalid_argument);
}

TEST_CASE("the writer refuses what no reader would take") {
  const std::vector<RawTensor> many(kSafetensorsTensorsMax + 1);
  CHECK(encode_safetensors_head(many).status().code() == Errc::resource_exhausted);
  std::vector<RawTensor> long_names;
  for (int i = 0; i < 110; ++i) {
    long_names.push_back({std::to_string(i) + std::string(1 << 20, 'x'), DType::f32, Shape{0}, {}});
  }
  CHECK(encode_safetensors_head(long_names).status().code() == Errc::resource_exhausted);
  long_names.resize(90);
  CHECK(encode_safetensors_head(long_names).ok());
}

TEST_CASE("names with quotes and no tensors at all are JSON, too") {
  const RawTensor odd[] = {{"a\"\\\n", DType::f32, Shape{0}, {}}};
  const Bytes file = tests::safetensors_bytes(odd);
  CHECK(parse_safetensors(file).value().at(0).name == odd[0].name);
  std::map<std::string, std::string> metadata;
  const Bytes said = tests::safetensors_bytes({}, {{"k", "v"}});
  CHECK(parse_safetensors(said, &metadata).value().empty());
  CHECK(metadata.at("k") == "v");
  const Bytes none = tests::safetensors_bytes({});
  CHECK(parse_safetensors(none).value().empty());
}

TEST_CASE("truncated and garbled files never crash") {
  const Bytes good = sample();
  for (std::size_t size = 0; size < good.size(); ++size) {
    CHECK(!parse_safetensors(std::span(good).first(size)).ok());
  }
  std::mt19937 random(5);
  for (int round = 0; round < 3000; ++round) {
    Bytes garbled = good;
    for (int k = 0; k < 3; ++k) garbled[random() % garbled.size()] = std::byte(random() & 0xff);
    const auto parsed = parse_safetensors(garbled);
    if (parsed.ok() || parsed.status().code() == Errc::unimplemented) continue;  // a foreign dtype
    CHECK(parsed.status().code() == Errc::data_loss);
  }
}

}  // namespace
}  // namespace troupe::ndarray
