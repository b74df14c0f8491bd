// SPDX-License-Identifier: Apache-2.0
// Manual pages made from the program's tree of verbs and its table of exit codes. Plain functions;
// any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/command_tree.h"

namespace troupe::apps {

/// A page of section 1.
struct ManPage {
  std::string file;  ///< "troupe-data.1"
  std::string text;  ///< roff with the macros of man(7)
};

/// The program's page, then one for each verb or family of verbs; a family's has all its verbs.
/// The same bytes for the same version.
std::vector<ManPage> man_pages(const VerbInfo& program, std::string_view version);

}  // namespace troupe::apps
