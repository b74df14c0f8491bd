// SPDX-License-Identifier: Apache-2.0
// Writing and strict reading of safetensors. The header is parsed without exceptions leaving this
// file; every number is checked before it is used.
#include "ndarray/safetensors.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/file.h"

namespace troupe::ndarray {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

namespace {

using base::DType;
using base::Errc;
using nlohmann::json;
using ordered_json = nlohmann::ordered_json;

constexpr std::size_t kLengthBytes = 8;
constexpr std::string_view kMetadata = "__metadata__";

struct NamedDType {
  DType dtype;
  std::string_view name;
};
constexpr NamedDType kDTypes[] = {
    {DType::f32, "F32"},   {DType::f64, "F64"}, {DType::f16, "F16"},
    {DType::bf16, "BF16"}, {DType::i64, "I64"}, {DType::i32, "I32"},
    {DType::i8, "I8"},     {DType::u8, "U8"},   {DType::boolean, "BOOL"}};

std::string_view format_name(DType dtype) {
  for (const NamedDType& entry : kDTypes) {
    if (entry.dtype == dtype) return entry.name;
  }
  return "?";
}

std::optional<DType> format_dtype(const std::string& name) {
  for (const NamedDType& entry : kDTypes) {
    if (entry.name == name) return entry.dtype;
  }
  return std::nullopt;
}

template <typename... Args>
base::Status damaged(fmt::format_string<Args...> format, Args&&... args) {
  return base::error(Errc::data_loss, "safetensors: {}",
                     fmt::format(format, std::forward<Args>(args)...));
}

/// Bytes of a tensor, or nothing when the product does not fit.
std::optional<std::uint64_t> checked_bytes(const base::Shape& shape, DType dtype) {
  std::uint64_t bytes = base::dtype_size(dtype);
  for (std::int64_t extent : shape.dims()) {
    if (extent == 0) return 0;
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes)) {
      return std::nullopt;
    }
  }
  return bytes;
}

base::Result<base::Shape> parse_extents(const std::string& name, const json& value) {
  if (!value.is_array() || value.size() > static_cast<std::size_t>(base::kRankMax)) {
    return damaged("tensor '{}' has no shape of at most {} axes", name, base::kRankMax);
  }
  base::Shape shape;
  for (const json& extent : value) {
    constexpr std::uint64_t kExtentMax = std::uint64_t{1} << 62;
    if (!extent.is_number_unsigned() || extent.get<std::uint64_t>() > kExtentMax) {
      return damaged("tensor '{}' has a bad extent", name);
    }
    shape.push_back(static_cast<std::int64_t>(extent.get<std::uint64_t>()));
  }
  return shape;
}

base::Result<RawTensor> parse_tensor(const std::string& name, const json& entry,
                                     std::span<const std::byte> data) {
  if (!entry.is_object() || entry.size() != 3 || !entry.contains("dtype") ||
      !entry.contains("shape") || !entry.contains("data_offsets")) {
    return damaged("tensor '{}' needs exactly dtype, shape and data_offsets", name);
  }
  RawTensor tensor;
  tensor.name = name;
  const json& type = entry["dtype"];
  const std::optional<DType> dtype =
      type.is_string() ? format_dtype(type.get<std::string>()) : std::nullopt;
  if (!dtype) return damaged("tensor '{}' has an unknown dtype", name);
  tensor.dtype = *dtype;
  TROUPE_TRY_ASSIGN(tensor.shape, parse_extents(name, entry["shape"]));
  const json& offsets = entry["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned()) {
    return damaged("tensor '{}' has bad data_offsets", name);
  }
  const auto begin = offsets[0].get<std::uint64_t>();
  const auto end = offsets[1].get<std::uint64_t>();
  if (begin > end || end > data.size()) {
    return damaged("tensor '{}' lies at [{}, {}) of {} bytes", name, begin, end, data.size());
  }
  const std::optional<std::uint64_t> bytes = checked_bytes(tensor.shape, tensor.dtype);
  if (!bytes || *bytes != end - begin) {
    return damaged("tensor '{}' of shape {} does not fill {} bytes", name, tensor.shape.to_string(),
                   end - begin);
  }
  tensor.bytes = data.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(*bytes));
  return tensor;
}

base::Status parse_metadata(const json& entry, std::map<std::string, std::string>* metadata) {
  if (!entry.is_object()) return damaged("__metadata__ is no object");
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string()) return damaged("__metadata__ '{}' is no text", key);
    if (metadata != nullptr) (*metadata)[key] = value.get<std::string>();
  }
  return {};
}

/// The JSON object of the header; doubled keys are errors, which nlohmann alone would not say.
base::Result<json> parse_header(std::string_view text) {
  if (text.empty() || text.front() != '{') return damaged("the header does not begin with '{{'");
  std::vector<std::set<std::string>> keys;
  bool doubled = false;
  const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key) {
      doubled = doubled || !keys.back().insert(parsed.get<std::string>()).second;
    }
    return depth < 8;
  };
  try {
    json header = json::parse(text, watch);
    if (doubled) return damaged("a name occurs twice in the header");
    if (!header.is_object()) return damaged("the header is no object");
    if (header.size() > kSafetensorsTensorsMax)
      return damaged("more than {} tensors", kSafetensorsTensorsMax);
    return header;
  } catch (const json::parse_error& fault) {
    return damaged("header byte {}: not JSON", fault.byte);
  } catch (const json::exception&) {
    return damaged("the header is not JSON of this format");
  }
}

/// Tensors in order of offsets must fill the data exactly.
base::Status check_cover(std::vector<RawTensor>& tensors, std::span<const std::byte> data) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const RawTensor& a, const RawTensor& b) {
    return std::pair(a.bytes.data(), a.bytes.size()) < std::pair(b.bytes.data(), b.bytes.size());
  });
  std::size_t covered = 0;
  for (const RawTensor& tensor : tensors) {
    const auto begin = static_cast<std::size_t>(tensor.bytes.data() - data.data());
    if (begin != covered) {
      return damaged("tensor '{}' begins at {}, the one before ends at {}", tensor.name, begin,
                     covered);
    }
    covered += tensor.bytes.size();
  }
  if (covered == data.size()) return {};
  return damaged("{} bytes behind the last tensor", data.size() - covered);
}

}  // namespace

const RawTensor* Safetensors::find(std::string_view name) const {
  const auto it = std::find_if(tensors.begin(), tensors.end(),
                               [name](const RawTensor& tensor) { return tensor.name == name; });
  return it == tensors.end() ? nullptr : &*it;
}

base::Result<std::vector<RawTensor>> parse_safetensors(
    std::span<const std::byte> bytes, std::map<std::string, std::string>* metadata) {
  if (bytes.size() < kLengthBytes) {
    return damaged("{} bytes are too few for the header's length", bytes.size());
  }
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > kSafetensorsHeaderBytesMax) {
    // The number itself is not quoted: of a file of another kind it would be its first bytes.
    return damaged("the header's length is above the limit of {}", kSafetensorsHeaderBytesMax);
  }
  if (length > bytes.size() - kLengthBytes) {
    return damaged("the header is longer than the file of {} bytes", bytes.size());
  }
  const std::span<const std::byte> text =
      bytes.subspan(kLengthBytes, static_cast<std::size_t>(length));
  const std::span<const std::byte> data = bytes.subspan(kLengthBytes + text.size());
  TROUPE_TRY_ASSIGN(const json header,
                    parse_header({reinterpret_cast<const char*>(text.data()), text.size()}));
  std::vector<RawTensor> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadata) {
      TROUPE_TRY(parse_metadata(entry, metadata));
      continue;
    }
    TROUPE_TRY_ASSIGN(RawTensor tensor, parse_tensor(name, entry, data));
    tensors.push_back(std::move(tensor));
  }
  TROUPE_TRY(check_cover(tensors, data));
  return tensors;
}

base::Result<std::vector<std::byte>> encode_safetensors(
    std::span<const RawTensor> tensors, const std::map<std::string, std::string>& metadata) {
  ordered_json header = ordered_json::object();
  if (!metadata.empty()) header[std::string(kMetadata)] = metadata;
  std::uint64_t offset = 0;
  for (const RawTensor& tensor : tensors) {
    const std::optional<std::uint64_t> bytes =
        tensor.shape.complete() ? checked_bytes(tensor.shape, tensor.dtype) : std::nullopt;
    if (!bytes || *bytes != tensor.bytes.size()) {
      return base::error(Errc::invalid_argument, "tensor '{}' {} {} does not fill {} bytes",
                         tensor.name, base::dtype_name(tensor.dtype), tensor.shape.to_string(),
                         tensor.bytes.size());
    }
    if (tensor.name == kMetadata || header.contains(tensor.name)) {
      return base::error(Errc::invalid_argument, "two tensors are called '{}'", tensor.name);
    }
    ordered_json& entry = header[tensor.name];
    entry["dtype"] = format_name(tensor.dtype);
    entry["shape"] = ordered_json::array();
    for (std::int64_t extent : tensor.shape.dims()) entry["shape"].push_back(extent);
    entry["data_offsets"] = {offset, offset + *bytes};
    offset += *bytes;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception&) {
    return base::error(Errc::invalid_argument, "a tensor's name is not UTF-8");
  }
  // Spaces make the data start at a multiple of 8, as the format advises.
  text.append((8 - text.size() % 8) % 8, ' ');
  const std::uint64_t length = text.size();
  std::vector<std::byte> file(kLengthBytes + text.size() + static_cast<std::size_t>(offset));
  std::memcpy(file.data(), &length, kLengthBytes);
  std::memcpy(file.data() + kLengthBytes, text.data(), text.size());
  std::byte* to = file.data() + kLengthBytes + text.size();
  for (const RawTensor& tensor : tensors) {
    to = std::copy(tensor.bytes.begin(), tensor.bytes.end(), to);
  }
  return file;
}

base::Result<Safetensors> read_safetensors(const std::filesystem::path& path) {
  Safetensors file;
  TROUPE_TRY_ASSIGN(file.bytes, base::read_file(path, kSafetensorsBytesMax));
  base::Result<std::vector<RawTensor>> tensors = parse_safetensors(file.bytes, &file.metadata);
  if (!tensors.ok()) return tensors.status().with_context(path.string());
  file.tensors = std::move(tensors).value();
  return file;
}

base::Status write_safetensors(const std::filesystem::path& path,
                               std::span<const RawTensor> tensors,
                               const std::map<std::string, std::string>& metadata) {
  base::Result<std::vector<std::byte>> file = encode_safetensors(tensors, metadata);
  if (!file.ok()) return file.status().with_context(path.string());
  return base::write_file_atomically(path, *file);
}

base::Status save_arrays(const std::filesystem::path& path,
                         const std::map<std::string, NDArray>& arrays) {
  std::vector<std::vector<std::byte>> contents;
  std::vector<RawTensor> tensors;
  contents.reserve(arrays.size());
  for (const auto& [name, array] : arrays) {
    if (!array) return base::error(Errc::invalid_argument, "array '{}' is empty", name);
    std::vector<std::byte>& content = contents.emplace_back(array.bytes());
    const base::Status status = array.read(content);
    if (!status.ok()) return status.with_context("array '" + name + "'");
    tensors.push_back({name, array.dtype(), array.shape(), content});
  }
  return write_safetensors(path, tensors);
}

base::Result<std::map<std::string, NDArray>> load_arrays(Runtime& runtime,
                                                         const std::filesystem::path& path) {
  TROUPE_TRY_ASSIGN(const Safetensors file, read_safetensors(path));
  std::map<std::string, NDArray> arrays;
  for (const RawTensor& tensor : file.tensors) {
    TROUPE_TRY_ASSIGN(arrays[tensor.name],
                      NDArray::from_bytes(runtime, tensor.shape, tensor.dtype, tensor.bytes));
  }
  return arrays;
}

}  // namespace troupe::ndarray
