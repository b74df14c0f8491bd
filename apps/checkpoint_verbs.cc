// SPDX-License-Identifier: Apache-2.0
// troupe checkpoint: what is in a folder of checkpoints.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "apps/json_text.h"
#include "apps/verbs.h"
#include "base/hash.h"
#include "base/text.h"
#include "base/units.h"
#include "store/checkpoint.h"

namespace troupe::apps {
namespace {

using base::printable;

/// Opens the newest complete checkpoint of a folder, where what is newer and damaged is said, or
/// the one that is named like in the last lines of a run, with or without ".manifest".
base::Result<std::unique_ptr<store::Checkpoint>> open(const std::string& place, Context& context) {
  const std::filesystem::path manifest = store::manifest_path(place);
  std::error_code ignored;
  if (!std::filesystem::is_directory(place, ignored) &&
      std::filesystem::exists(manifest, ignored)) {
    return store::Checkpoint::open(manifest);
  }
  TROUPE_TRY_ASSIGN(auto checkpoint, store::Checkpoint::open_newest(place));
  for (const std::string& line : checkpoint->skipped()) {
    context.console.note("skipped: " + line);
  }
  return checkpoint;
}

/// Of both verbs.
struct PlaceOptions {
  std::string place;
  bool json = false;
};

ExitCode hash(const PlaceOptions& options, Context& context) {
  const auto checkpoint = open(options.place, context);
  if (!checkpoint.ok()) return context.fail(checkpoint.status());
  const auto digest = checkpoint.value()->hash();
  if (!digest.ok()) return context.fail(digest.status());
  const std::string hex = base::to_hex(digest.value());
  const Json document = {{"checkpoint", checkpoint.value()->path().string()}, {"sha256", hex}};
  context.console.data(options.json ? json_text(document) : hex + "\n");
  return ExitCode::ok;
}

std::string text_of(const store::Checkpoint& checkpoint) {
  const schemas::Manifest& manifest = checkpoint.manifest();
  std::string text = fmt::format(
      "checkpoint  {}\njob         {}\nstep        {}\nepoch       {}\nsamples     {}\n"
      "numerics    {}{}\n",
      printable(checkpoint.path().string()), printable(manifest.job_name),
      base::format_count(manifest.step), manifest.epoch, base::format_count(manifest.samples),
      printable(manifest.numeric_class.to_string()),
      manifest.numerics_changed ? ", earlier steps in another class" : "");
  for (const schemas::ShardFile& file : manifest.files) {
    text +=
        fmt::format("file        {} {}\n", printable(file.name), base::format_bytes(file.bytes));
  }
  for (const schemas::KeyInfo& key : manifest.keys) {
    text += fmt::format("key         {} {} {}\n", printable(key.name), key.shape.to_string(),
                        base::dtype_name(key.dtype));
  }
  return text;
}

Json json_of_checkpoint(const store::Checkpoint& checkpoint) {
  const schemas::Manifest& manifest = checkpoint.manifest();
  Json files = Json::array();
  for (const schemas::ShardFile& file : manifest.files) {
    files.push_back({{"name", file.name}, {"bytes", file.bytes}});
  }
  Json keys = Json::array();
  for (const schemas::KeyInfo& key : manifest.keys) {
    keys.push_back({{"name", key.name},
                    {"shape", json_of(key.shape)},
                    {"dtype", base::dtype_name(key.dtype)}});
  }
  return {{"checkpoint", checkpoint.path().string()},
          {"job", manifest.job_name},
          {"step", manifest.step},
          {"epoch", manifest.epoch},
          {"samples", manifest.samples},
          {"numerics", json_of(manifest.numeric_class)},
          {"numerics_changed", manifest.numerics_changed},
          {"files", std::move(files)},
          {"keys", std::move(keys)}};
}

ExitCode show(const PlaceOptions& options, Context& context) {
  const auto opened = open(options.place, context);
  if (!opened.ok()) return context.fail(opened.status());
  const store::Checkpoint& checkpoint = *opened.value();
  context.console.data(options.json ? json_text(json_of_checkpoint(checkpoint))
                                    : text_of(checkpoint));
  return ExitCode::ok;
}

}  // namespace

void add_checkpoint_verbs(CLI::App& app, Context& context) {
  CLI::App* family = add_family(app, "checkpoint", "Look at checkpoints");
  const auto place = std::make_shared<PlaceOptions>();
  const auto add = [&](const char* name, const std::string& description,
                       ExitCode (*action)(const PlaceOptions&, Context&)) {
    CLI::App* verb = family->add_subcommand(name, description);
    verb->add_option("PLACE", place->place, "The job's checkpoint.dir, or one checkpoint in it")
        ->required()
        ->type_name("");
    add_json_flag(*verb, place->json);
    set_action(verb, context, [&context, place, action] { return action(*place, context); });
  };
  add("hash",
      describe("Print the SHA-256 of a checkpoint's content, 64 hex digits; of a folder's newest",
               {"troupe checkpoint hash out", "troupe checkpoint hash out/step-938-g1"}),
      hash);
  add("show",
      describe("Show a checkpoint; of a folder its newest complete one",
               {"troupe checkpoint show out", "troupe checkpoint show out/step-938-g1"}),
      show);
}

}  // namespace troupe::apps
