// SPDX-License-Identifier: Apache-2.0
// JSON of values that several documents have. Control characters are escaped, also those behind
// U+007F, which terminals obey.
#include "apps/json_text.h"

namespace troupe::apps {

std::string json_text(const Json& document) {
  constexpr int kIndent = 2;
  const std::string text = document.dump(kIndent, ' ', false, Json::error_handler_t::replace);
  std::string result;
  result.reserve(text.size() + 1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : '\0');
    if (byte == 0x7f) {
      result += "\\u007f";
    } else if (byte == 0xc2 && next >= 0x80 && next <= 0x9f) {  // U+0080 to U+009F in UTF-8
      result += fmt::format("\\u{:04x}", next);
      ++i;
    } else {
      result += text[i];
    }
  }
  result += '\n';
  return result;
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
