// SPDX-License-Identifier: Apache-2.0
// What verbs print with --json: one document for each command, always with the same keys, in the
// order in which they were added. docs/json.md lists the keys. Plain functions; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/numeric_class.h"
#include "base/shape.h"
#include "data/image_record.h"

namespace troupe::apps {

/// A document, or a part of one.
using Json = nlohmann::ordered_json;

/// The document in lines, with a line break at its end. Valid whatever the texts in it hold: bytes
/// that are no UTF-8 become U+FFFD, numbers that are none (NaN, infinity) null.
std::string json_text(const Json& document);

/// The value, or null where it is not known.
template <typename Value>
Json json_or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

/// The text, or null where there is none.
Json json_or_null(const std::string& text);

/// The extents.
Json json_of(const base::Shape& shape);
/// Channels, height and width.
Json json_of(const data::ImageShape& image);
/// Everything that may change bits.
Json json_of(const base::NumericClass& numerics);

}  // namespace troupe::apps
