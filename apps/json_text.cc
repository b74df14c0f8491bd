// SPDX-License-Identifier: Apache-2.0
// JSON of values that several documents have.
#include "apps/json_text.h"

namespace troupe::apps {

std::string json_text(const Json& document) {
  constexpr int kIndent = 2;
  return document.dump(kIndent, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json json_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

Json json_of(const base::Shape& shape) {
  Json extents = Json::array();
  for (const std::int64_t extent : shape.dims()) extents.push_back(extent);
  return extents;
}

Json json_of(const data::ImageShape& image) {
  return {{"channels", image.channels}, {"height", image.height}, {"width", image.width}};
}

Json json_of(const base::NumericClass& numerics) {
  return {{"build", numerics.build},
          {"onednn", numerics.onednn},
          {"libm", numerics.libm},
          {"isa", numerics.isa},
          {"caches", numerics.caches},
          {"threads", numerics.threads},
          {"device_model", numerics.device_model}};
}

}  // namespace troupe::apps
