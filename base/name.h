// SPDX-License-Identifier: Apache-2.0
// Names that people give: of jobs, their ids, machines. They become labels, file names and
// terminal text. A pure function; any thread.
#pragma once

#include <string_view>

namespace troupe::base {

/// What plain_name() asks for, for errors.
inline constexpr std::string_view kPlainNameRule =
    "1 to 64 letters, digits, '-', '_' and '.', not only dots, no '-' first";

/// True for names that follow kPlainNameRule.
bool plain_name(std::string_view name);

}  // namespace troupe::base
