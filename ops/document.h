// SPDX-License-Identifier: Apache-2.0
// The reference of all operators as Markdown, from the table alone: docs/ops.md. Any thread.
#pragma once

#include <string>

#include "ops/table.h"

namespace troupe::ops {

/// The text of docs/ops.md: one section per operator, in order of name. Depends on definitions
/// only, not on the back-ends of this build.
std::string operator_reference(const OpTable& table);

}  // namespace troupe::ops
