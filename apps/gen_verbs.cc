// SPDX-License-Identifier: Apache-2.0
// troupe gen: files that are made from what the program knows of itself.
#include <CLI/CLI.hpp>

#include "apps/verbs.h"

namespace troupe::apps {

void add_gen_verbs(CLI::App& app, Context& context) {
  CLI::App* family = add_family(app, "gen", "Write files made from what the program knows");
  add_man_verb(app, *family, context);
}

}  // namespace troupe::apps
