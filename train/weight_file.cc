// SPDX-License-Identifier: Apache-2.0
// What a file of weights must have, and where its tensors lie.
#include "train/weight_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "base/text.h"
#include "base/units.h"

namespace troupe::train {
namespace {

base::Result<ndarray::SafetensorsHeader> read_header(const data::RecordFile& file,
                                                     std::uint64_t& data_begin) {
  std::array<std::byte, ndarray::kSafetensorsLengthBytes> first{};
  const std::size_t there = std::min<std::uint64_t>(first.size(), file.bytes());
  TROUPE_TRY(file.read(0, std::span(first).first(there)));
  const auto begin = ndarray::safetensors_data_begin(std::span(first).first(there), file.bytes());
  if (!begin.ok()) return begin.status().with_context(file.path().string());
  data_begin = *begin;
  std::string text(static_cast<std::size_t>(data_begin - first.size()), '\0');
  TROUPE_TRY(file.read(first.size(), std::as_writable_bytes(std::span(text))));
  auto header = ndarray::parse_safetensors_header(text, file.bytes() - data_begin);
  if (!header.ok()) return header.status().with_context(file.path().string());
  return header;
}

}  // namespace

base::Result<WeightFile> WeightFile::open(const Job& job) {
  WeightFile opened;
  TROUPE_TRY_ASSIGN(opened.file_, data::RecordFile::open(job.spec.train.weights));
  std::uint64_t data_begin = 0;
  TROUPE_TRY_ASSIGN(const auto header, read_header(*opened.file_, data_begin));
  TROUPE_TRY(opened.take(job, header, data_begin));
  return opened;
}

base::Status WeightFile::take(const Job& job, const ndarray::SafetensorsHeader& header,
                              std::uint64_t data_begin) {
  const std::string path = file_->path().string();
  std::map<std::string_view, const ndarray::TensorPlace*> tensors;
  for (const ndarray::TensorPlace& tensor : header.tensors) tensors[tensor.name] = &tensor;
  std::vector<std::string> missing;
  std::size_t scales = 0;
  for (const schemas::KeyInfo& key : job.keys.keys) {
    const auto found = tensors.find(key.name);
    const ndarray::TensorPlace* const given = found == tensors.end() ? nullptr : found->second;
    if (key.kind == schemas::KeyKind::loss_scale) {  // no weight
      scales += given != nullptr ? 1 : 0;
      continue;
    }
    if (given == nullptr) {
      missing.push_back(key.name);
      continue;
    }
    if (!given->foreign.empty()) {
      return base::error(base::Errc::invalid_argument,
                         "{}: '{}' has {}, the network's has {} and {}", path, key.name,
                         given->foreign, key.shape.to_string(), base::dtype_name(key.dtype));
    }
    if (given->shape != key.shape || given->dtype != key.dtype) {
      return base::error(base::Errc::invalid_argument,
                         "{}: '{}' has shape {} and dtype {}, the network's has {} and {}", path,
                         key.name, given->shape.to_string(), base::dtype_name(given->dtype),
                         key.shape.to_string(), base::dtype_name(key.dtype));
    }
    places_[key.name] = {data_begin + given->begin, data_begin + given->end};
  }
  if (places_.empty()) {
    return base::error(base::Errc::invalid_argument,
                       "{}: holds none of the network's tensors ('{}', ...)", path,
                       job.keys.keys.front().name);
  }
  if (!missing.empty()) {
    base::log_warn(
        "{}: {} of the network's {} are not there and begin as train.initializer says: {}", path,
        missing.size(), base::format_counted(places_.size() + missing.size(), "tensor"),
        base::shortened(fmt::format("{}", fmt::join(missing, ", ")), base::kQuotedBytesMax));
  }
  if (places_.size() + scales < header.tensors.size()) {
    base::log_warn("{}: {} of its tensors are not the network's", path,
                   header.tensors.size() - places_.size() - scales);
  }
  return {};
}

base::Status WeightFile::read(const std::string& name, std::uint64_t begin,
                              std::span<std::byte> out) const {
  const auto found = places_.find(name);
  TROUPE_CHECK(found != places_.end(), "a tensor that the file does not have");
  const Place& place = found->second;
  TROUPE_CHECK(begin <= place.end - place.begin && out.size() <= place.end - place.begin - begin,
               "bytes beyond a tensor");
  return file_->read(place.begin + begin, out);
}

}  // namespace troupe::train
