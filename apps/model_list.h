// SPDX-License-Identifier: Apache-2.0
// What `troupe model list` shows. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/json_text.h"
#include "base/shape.h"
#include "base/status.h"

namespace troupe::apps {

/// A built-in network as it is defined.
struct ModelLine {
  std::string name;
  base::Shape input;  ///< of one sample
  std::int64_t classes = 0;
  double dropout = 0.0;
  std::uint64_t parameters = 0;
  double multiply_adds = 0.0;  ///< of one sample's forward pass, in products and convolutions
};

base::Result<std::vector<ModelLine>> list_models();
std::string model_table(const std::vector<ModelLine>& models);
Json json_of(const std::vector<ModelLine>& models);

}  // namespace troupe::apps
