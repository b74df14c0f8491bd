// SPDX-License-Identifier: Apache-2.0
// What `troupe model list` shows. Pure functions, any thread.
#pragma once

#include <string>
#include <vector>

#include "apps/json_text.h"
#include "base/status.h"
#include "symbol/networks/networks.h"
#include "symbol/work.h"

namespace troupe::apps {

/// A built-in network and its size.
struct ModelLine {
  symbol::NetworkInfo network;
  symbol::NetworkSize size;  ///< for one sample
};

base::Result<std::vector<ModelLine>> list_models();
std::string model_table(const std::vector<ModelLine>& models);
Json json_of(const std::vector<ModelLine>& models);

}  // namespace troupe::apps
