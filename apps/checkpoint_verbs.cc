// SPDX-License-Identifier: Apache-2.0
// troupe checkpoint: what is in a folder of checkpoints.
#include <CLI/CLI.hpp>
#include <memory>

#include "apps/verbs.h"
#include "base/hash.h"
#include "base/units.h"
#include "store/checkpoint.h"

namespace troupe::apps {
namespace {

/// Opens the newest complete checkpoint; what is newer and damaged is said.
base::Result<std::unique_ptr<store::Checkpoint>> open(const std::string& folder, Context& context) {
  TROUPE_TRY_ASSIGN(auto checkpoint, store::Checkpoint::open_newest(folder));
  for (const std::string& line : checkpoint->skipped()) {
    context.console.note("skipped: " + line);
  }
  return checkpoint;
}

ExitCode hash(const std::string& folder, Context& context) {
  const auto checkpoint = open(folder, context);
  if (!checkpoint.ok()) return context.fail(checkpoint.status());
  const auto digest = checkpoint.value()->hash();
  if (!digest.ok()) return context.fail(digest.status());
  context.console.data(base::to_hex(digest.value()) + "\n");
  return ExitCode::ok;
}

ExitCode show(const std::string& folder, Context& context) {
  const auto opened = open(folder, context);
  if (!opened.ok()) return context.fail(opened.status());
  const store::Checkpoint& checkpoint = *opened.value();
  const schemas::Manifest& manifest = checkpoint.manifest();
  std::string text = fmt::format(
      "checkpoint  {}\njob         {}\nstep        {}\nepoch       {}\nsamples     {}\n"
      "numerics    {}{}\n",
      checkpoint.path().string(), manifest.job_name, base::format_count(manifest.step),
      manifest.epoch, base::format_count(manifest.samples), manifest.numeric_class.to_string(),
      manifest.numerics_changed ? ", earlier steps in another class" : "");
  for (const schemas::ShardFile& file : manifest.files) {
    text += fmt::format("file        {} {}\n", file.name, base::format_bytes(file.bytes));
  }
  for (const schemas::KeyInfo& key : manifest.keys) {
    text += fmt::format("key         {} {} {}\n", key.name, key.shape.to_string(),
                        base::dtype_name(key.dtype));
  }
  context.console.data(text);
  return ExitCode::ok;
}

}  // namespace

void add_checkpoint_verbs(CLI::App& app, Context& context) {
  CLI::App* family = add_family(app, "checkpoint", "Look at checkpoints");
  const auto folder = std::make_shared<std::string>();
  const auto add = [&](const char* name, const std::string& description,
                       ExitCode (*action)(const std::string&, Context&)) {
    CLI::App* verb = family->add_subcommand(name, description);
    verb->add_option("DIR", *folder, "The job's checkpoint.dir")->required()->type_name("");
    set_action(verb, context, [&context, folder, action] { return action(*folder, context); });
  };
  add("hash",
      describe("Print the SHA-256 of the newest complete checkpoint's content, 64 hex digits",
               {"troupe checkpoint hash out"}),
      hash);
  add("show", describe("Show the newest complete checkpoint", {"troupe checkpoint show out"}),
      show);
}

}  // namespace troupe::apps
