// SPDX-License-Identifier: Apache-2.0
// Writing and strict reading of safetensors. The header is parsed without exceptions leaving this
// file; every number is checked before it is used.
#include "ndarray/safetensors.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_set>

#include "base/file.h"
#include "base/text.h"

namespace troupe::ndarray {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

namespace {

using base::DType;
using base::Errc;
using nlohmann::json;

constexpr std::size_t kLengthBytes = kSafetensorsLengthBytes;
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
  if (!value.is_array()) return damaged("tensor '{}' has a shape that is no list", name);
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

base::Result<TensorPlace> parse_tensor(const std::string& name, const json& entry,
                                       std::uint64_t data_bytes) {
  if (!entry.is_object() || entry.size() != 3 || !entry.contains("dtype") ||
      !entry.contains("shape") || !entry.contains("data_offsets")) {
    return damaged("tensor '{}' needs exactly dtype, shape and data_offsets", name);
  }
  TensorPlace tensor;
  tensor.name = name;
  const json& type = entry["dtype"];
  if (!type.is_string()) return damaged("tensor '{}' has a dtype that is no text", name);
  const std::optional<DType> dtype = format_dtype(type.get<std::string>());
  const json& extents = entry["shape"];
  if (!dtype) {
    constexpr std::size_t kShownMax = 20;
    tensor.foreign = fmt::format(
        "dtype '{}'", base::shortened(base::printable(type.get<std::string>()), kShownMax));
  } else if (extents.is_array() && extents.size() > static_cast<std::size_t>(base::kRankMax)) {
    tensor.foreign = fmt::format("{} axes", extents.size());
  } else {
    tensor.dtype = *dtype;
    TROUPE_TRY_ASSIGN(tensor.shape, parse_extents(name, extents));
  }
  const json& offsets = entry["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned()) {
    return damaged("tensor '{}' has bad data_offsets", name);
  }
  tensor.begin = offsets[0].get<std::uint64_t>();
  tensor.end = offsets[1].get<std::uint64_t>();
  if (tensor.begin > tensor.end || tensor.end > data_bytes) {
    return damaged("tensor '{}' lies at [{}, {}) of {} bytes", name, tensor.begin, tensor.end,
                   data_bytes);
  }
  if (!tensor.foreign.empty()) return tensor;
  const std::optional<std::uint64_t> bytes = checked_bytes(tensor.shape, tensor.dtype);
  if (!bytes || *bytes != tensor.end - tensor.begin) {
    return damaged("tensor '{}' of shape {} does not fill {} bytes", name, tensor.shape.to_string(),
                   tensor.end - tensor.begin);
  }
  return tensor;
}

base::Status parse_metadata(const json& entry, std::map<std::string, std::string>& metadata) {
  if (!entry.is_object()) return damaged("__metadata__ is no object");
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string()) return damaged("__metadata__ '{}' is no text", key);
    metadata[key] = value.get<std::string>();
  }
  return {};
}

/// Looks over a header before it is parsed: names that occur twice, which the library alone would
/// not say, depth, and how many tensors there are.
class HeaderWatch : public nlohmann::json_sax<json> {
 public:
  /// What is wrong; empty: nothing.
  const std::string& fault() const { return fault_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool start_array(std::size_t) override { return enter(); }
  bool end_array() override { return leave(); }
  bool key(string_t& name) override {
    if (!names_.back().insert(name).second) return fail("a name occurs twice in the header");
    if (++count_ > kNamesMost) return fail(fmt::format("more than {} names", kNamesMost));
    if (names_.size() > 1 || names_.back().size() <= kSafetensorsTensorsMax + 1) return true;
    return fail(fmt::format("more than {} tensors", kSafetensorsTensorsMax));
  }
  bool parse_error(std::size_t position, const std::string&, const json::exception&) override {
    return fail(fmt::format("header byte {}: not JSON", position));
  }

 private:
  static constexpr std::size_t kDeepest = 8;
  /// A tensor has its own, three of its attributes, and one of the metadata.
  static constexpr std::size_t kNamesMost = 5 * kSafetensorsTensorsMax + 1'000;

  bool enter() {
    names_.emplace_back();
    return names_.size() <= kDeepest || fail("the header is not JSON of this format");
  }
  bool leave() {
    names_.pop_back();
    return true;
  }
  bool fail(std::string fault) {
    if (fault_.empty()) fault_ = std::move(fault);
    return false;
  }

  std::vector<std::set<std::string>> names_;  // of the objects and arrays that are open
  std::size_t count_ = 0;                     // of all names
  std::string fault_;
};

/// The JSON object of the header.
base::Result<json> parse_header(std::string_view text) {
  if (text.empty() || text.front() != '{') return damaged("the header does not begin with '{{'");
  HeaderWatch watch;
  if (!json::sax_parse(text, &watch)) return damaged("{}", watch.fault());
  try {
    json header = json::parse(text);
    const std::size_t tensors = header.size() - header.count(kMetadata);
    if (tensors > kSafetensorsTensorsMax) {
      return damaged("more than {} tensors", kSafetensorsTensorsMax);
    }
    return header;
  } catch (const json::exception&) {
    return damaged("the header is not JSON of this format");
  }
}

/// Tensors in order of offsets must fill the data exactly.
base::Status check_cover(std::vector<TensorPlace>& tensors, std::uint64_t data_bytes) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const TensorPlace& a, const TensorPlace& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t covered = 0;
  for (const TensorPlace& tensor : tensors) {
    if (tensor.begin != covered) {
      return damaged("tensor '{}' begins at {}, the one before ends at {}", tensor.name,
                     tensor.begin, covered);
    }
    covered = tensor.end;
  }
  if (covered == data_bytes) return {};
  return damaged("{} bytes behind the last tensor", data_bytes - covered);
}

}  // namespace

const RawTensor* Safetensors::find(std::string_view name) const {
  const auto it = std::find_if(tensors.begin(), tensors.end(),
                               [name](const RawTensor& tensor) { return tensor.name == name; });
  return it == tensors.end() ? nullptr : &*it;
}

base::Result<std::uint64_t> safetensors_data_begin(std::span<const std::byte> first,
                                                   std::uint64_t file_bytes) {
  if (first.size() < kLengthBytes || file_bytes < kLengthBytes) {
    return damaged("{} bytes are too few for the header's length", file_bytes);
  }
  std::uint64_t length = 0;
  std::memcpy(&length, first.data(), kLengthBytes);
  constexpr std::uint32_t kZip = 0x04034b50;  // "PK", 3, 4
  if (static_cast<std::uint32_t>(length) == kZip) {
    return damaged(
        "is a zip archive, as torch.save() writes it; docs/job-file.md, Weights in and "
        "out, shows how to convert it");
  }
  if (length > kSafetensorsHeaderBytesMax) {
    // The number itself is not quoted: of a file of another kind it would be its first bytes.
    return damaged("the header's length is above the limit of {}", kSafetensorsHeaderBytesMax);
  }
  if (length > file_bytes - kLengthBytes) {
    return damaged("the header is longer than the file of {} bytes", file_bytes);
  }
  return kLengthBytes + length;
}

base::Result<SafetensorsHeader> parse_safetensors_header(std::string_view text,
                                                         std::uint64_t data_bytes) {
  TROUPE_TRY_ASSIGN(const json parsed, parse_header(text));
  SafetensorsHeader header;
  for (const auto& [name, entry] : parsed.items()) {
    if (name == kMetadata) {
      TROUPE_TRY(parse_metadata(entry, header.metadata));
      continue;
    }
    TROUPE_TRY_ASSIGN(TensorPlace tensor, parse_tensor(name, entry, data_bytes));
    header.tensors.push_back(std::move(tensor));
  }
  TROUPE_TRY(check_cover(header.tensors, data_bytes));
  return header;
}

base::Result<std::vector<RawTensor>> parse_safetensors(
    std::span<const std::byte> bytes, std::map<std::string, std::string>* metadata) {
  TROUPE_TRY_ASSIGN(const std::uint64_t begin, safetensors_data_begin(bytes, bytes.size()));
  const auto head = static_cast<std::size_t>(begin);
  const auto text = bytes.first(head).subspan(kLengthBytes);
  const std::span<const std::byte> data = bytes.subspan(head);
  TROUPE_TRY_ASSIGN(SafetensorsHeader header,
                    parse_safetensors_header(
                        {reinterpret_cast<const char*>(text.data()), text.size()}, data.size()));
  std::vector<RawTensor> tensors;
  for (TensorPlace& place : header.tensors) {
    if (!place.foreign.empty()) {
      return base::error(Errc::unimplemented,
                         "safetensors: tensor '{}' has {}, which cannot be read", place.name,
                         place.foreign);
    }
    tensors.push_back({std::move(place.name), place.dtype, place.shape,
                       data.subspan(static_cast<std::size_t>(place.begin),
                                    static_cast<std::size_t>(place.end - place.begin))});
  }
  if (metadata != nullptr) *metadata = std::move(header.metadata);
  return tensors;
}

base::Result<std::string> encode_safetensors_head(
    std::span<const RawTensor> tensors, const std::map<std::string, std::string>& metadata) {
  if (tensors.size() > kSafetensorsTensorsMax) {
    return base::error(Errc::resource_exhausted, "{} tensors are more than the {} of a file",
                       tensors.size(), kSafetensorsTensorsMax);
  }
  std::string text(kLengthBytes, '\0');
  std::unordered_set<std::string_view> names = {kMetadata};
  std::uint64_t offset = 0;
  try {
    text += metadata.empty() ? "{" : fmt::format("{{\"{}\":{}", kMetadata, json(metadata).dump());
    for (const RawTensor& tensor : tensors) {
      const std::optional<std::uint64_t> bytes =
          tensor.shape.complete() ? checked_bytes(tensor.shape, tensor.dtype) : std::nullopt;
      if (!bytes || *bytes != tensor.bytes.size()) {
        return base::error(Errc::invalid_argument, "tensor '{}' {} {} does not fill {} bytes",
                           tensor.name, base::dtype_name(tensor.dtype), tensor.shape.to_string(),
                           tensor.bytes.size());
      }
      if (!names.insert(tensor.name).second) {
        return base::error(Errc::invalid_argument, "two tensors are called '{}'", tensor.name);
      }
      fmt::format_to(std::back_inserter(text),
                     "{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                     text.size() == kLengthBytes + 1 ? "" : ",", json(tensor.name).dump(),
                     format_name(tensor.dtype), fmt::join(tensor.shape.dims(), ","), offset,
                     offset + *bytes);
      offset += *bytes;
    }
  } catch (const json::exception&) {
    return base::error(Errc::invalid_argument, "a tensor's name is not UTF-8");
  }
  text += '}';
  // Spaces make the data start at a multiple of 8, as the format advises.
  text.append((8 - text.size() % 8) % 8, ' ');
  const std::uint64_t length = text.size() - kLengthBytes;
  if (length > kSafetensorsHeaderBytesMax) {
    return base::error(Errc::resource_exhausted,
                       "a header of {} bytes for {} tensors is more than the {} of a file", length,
                       tensors.size(), kSafetensorsHeaderBytesMax);
  }
  std::memcpy(text.data(), &length, kLengthBytes);
  return text;
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
  const base::Result<std::string> head = encode_safetensors_head(tensors, metadata);
  if (!head.ok()) return head.status().with_context(path.string());
  std::uint64_t bytes = head->size();
  for (const RawTensor& tensor : tensors) bytes += tensor.bytes.size();
  if (bytes > kSafetensorsBytesMax) {
    return base::error(Errc::resource_exhausted,
                       "{}: {} bytes are more than the {} that can be read again", path.string(),
                       bytes, kSafetensorsBytesMax);
  }
  base::AtomicFile file(path);
  TROUPE_TRY(file.open());
  TROUPE_TRY(file.write(std::as_bytes(std::span(*head))));
  for (const RawTensor& tensor : tensors) TROUPE_TRY(file.write(tensor.bytes));
  return file.commit();
}

base::Status save_arrays(const std::filesystem::path& path,
                         const std::map<std::string, NDArray>& arrays) {
  std::vector<std::vector<std::byte>> contents;
  std::vector<RawTensor> tensors;
  contents.reserve(arrays.size());
  for (const auto& [name, array] : arrays) {
    if (!array.status().ok()) return array.status().with_context("array '" + name + "'");
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
