// SPDX-License-Identifier: Apache-2.0
// troupe data: record files made, indexed and checked. A packer that is stopped by a signal leaves
// nothing.
#include <unistd.h>

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/json_text.h"
#include "apps/stop_signals.h"
#include "apps/verbs.h"
#include "base/shape.h"
#include "data/index.h"
#include "data/inspect.h"
#include "data/pack.h"

namespace troupe::apps {
namespace {

Json json_of_report(const data::PackReport& report) {
  Json files = Json::array();
  for (const data::PackedFile& file : report.files) {
    files.push_back({{"file", file.path.string()},
                     {"records", file.records},
                     {"image", json_of(file.image)},
                     {"classes", file.classes},
                     {"bytes", file.bytes}});
  }
  return {{"files", std::move(files)}};
}

Json json_of_report(const data::IndexReport& report) {
  return {{"file", report.path.string()}, {"records", report.records}};
}

Json json_of_report(const data::CheckReport& report) {
  Json first_bad = nullptr;
  if (!report.first_bad.ok()) {
    first_bad = {{"offset_bytes", report.first_bad_offset}, {"text", report.first_bad.text()}};
  }
  return {{"file", report.path.string()},
          {"records", report.records},
          {"bytes", report.bytes},
          {"checksum", fmt::format("{:#010x}", report.checksum)},
          {"split_records", report.split_records},
          {"images", report.images},
          {"first_image", report.first_image ? json_of(*report.first_image) : Json(nullptr)},
          {"damaged_places", report.damaged_places},
          {"damaged_images", report.damaged_images},
          {"first_bad", std::move(first_bad)},
          {"index_fault", json_or_null(report.index_fault.text())}};
}

/// Prints a report as data, or its error.
template <typename Report>
ExitCode finish(const base::Result<Report>& report, bool json, Context& context) {
  if (!report.ok()) return context.fail(report.status());
  context.console.data(json ? json_text(json_of_report(*report)) : report->to_string());
  return ExitCode::ok;
}

/// Of `index` and `check`.
struct FileOptions {
  std::string path;
  bool decode = false;
  bool json = false;
};

ExitCode check(const FileOptions& options, Context& context) {
  const auto report = data::check_record_file(options.path, options.decode);
  const ExitCode shown = finish(report, options.json, context);
  if (shown != ExitCode::ok) return shown;
  const base::Status status = report.value().status();
  return status.ok() ? ExitCode::ok : context.fail(status);
}

/// Where a packer writes, and whether over what is there.
struct PackTarget {
  std::filesystem::path out;
  bool force = false;
  bool json = false;
};

void add_target(CLI::App* verb, PackTarget& target) {
  verb->add_option("--out", target.out, "Folder of train.rec and test.rec")
      ->required()
      ->type_name("DIR");
  verb->add_flag("--force", target.force,
                 "Replace files of these names that are there; a test set that is not packed goes");
  add_json_flag(*verb, target.json);
}

base::Status check_target(const PackTarget& target) {
  std::vector<std::filesystem::path> files;
  for (const char* name : {"train.rec", "test.rec"}) {
    files.push_back(target.out / name);
    files.push_back(data::index_path(target.out / name));
  }
  files.push_back(target.out / data::kClassesFile);
  for (const std::filesystem::path& file : files) {
    std::error_code unknown;
    if (target.force || !std::filesystem::exists(file, unknown)) continue;
    return base::error(base::Errc::already_exists, "{}: exists; --force replaces it",
                       file.string());
  }
  return {};
}

template <typename Packer>
ExitCode pack_into(const PackTarget& target, Context& context, const Packer& packer) {
  const base::Status free = check_target(target);
  if (!free.ok()) return context.fail(free);
  std::error_code unknown;
  const bool there = std::filesystem::exists(std::filesystem::symlink_status(target.out, unknown));
  std::atomic<bool> stop{false};
  const StopSignals signals([&stop](int) { stop.store(true); });
  const base::Result<data::PackReport> report = packer(&stop);
  const ExitCode code = finish(report, target.json, context);
  // The folder that was made for nothing goes; whatever else is there stays.
  if (code != ExitCode::ok && !there) ::rmdir(target.out.c_str());
  const bool stopped = report.status().code() == base::Errc::cancelled;
  return stopped ? exit_code_of_signal(signals.received()) : code;
}

void add_pack_fashion(CLI::App& pack, Context& context) {
  CLI::App* verb = pack.add_subcommand(
      "fashion-mnist", describe("Pack Fashion-MNIST (Debian package dataset-fashion-mnist)",
                                {"troupe data pack fashion-mnist --out data/fashion"}));
  struct Options {
    std::filesystem::path source = data::kFashionMnistFolder;
    PackTarget target;
  };
  const auto options = std::make_shared<Options>();
  add_target(verb, options->target);
  verb->add_option("--source", options->source, "Folder of the four .gz files")
      ->capture_default_str()
      ->type_name("DIR");
  set_action(verb, context, [&context, options] {
    return pack_into(options->target, context, [&options](data::Stop stop) {
      return data::pack_fashion_mnist(options->source, options->target.out, stop);
    });
  });
}

void add_pack_idx(CLI::App& pack, Context& context) {
  CLI::App* verb = pack.add_subcommand(
      "idx", describe("Pack IDX files of images and labels, plain or .gz",
                      {"troupe data pack idx --images train-images.gz --labels train-labels.gz "
                       "--out data/mine"}));
  struct Options {
    data::IdxPackOptions pack;
    data::IdxPair test;
    PackTarget target;
  };
  const auto options = std::make_shared<Options>();
  add_target(verb, options->target);
  verb->add_option("--images", options->pack.train.images, "Training images")
      ->required()
      ->type_name("FILE");
  verb->add_option("--labels", options->pack.train.labels, "Training labels")
      ->required()
      ->type_name("FILE");
  CLI::Option* images = verb->add_option("--test-images", options->test.images, "Test images");
  CLI::Option* labels = verb->add_option("--test-labels", options->test.labels, "Test labels");
  images->type_name("FILE")->needs(labels);
  labels->type_name("FILE")->needs(images);
  set_action(verb, context, [&context, options] {
    if (!options->test.images.empty()) options->pack.test = options->test;
    options->pack.out = options->target.out;
    return pack_into(options->target, context, [&options](data::Stop stop) {
      options->pack.stop = stop;
      return data::pack_idx(options->pack);
    });
  });
}

void add_pack_images(CLI::App& pack, Context& context) {
  CLI::App* verb = pack.add_subcommand(
      "images", describe("Pack JPEG and PNG images of one size, a sub-folder per class",
                         {"troupe data pack images --train photos/train --test photos/test "
                          "--out data/photos"}));
  struct Options {
    data::FolderPackOptions pack;
    std::filesystem::path test;
    PackTarget target;
  };
  const auto options = std::make_shared<Options>();
  add_target(verb, options->target);
  verb->add_option("--train", options->pack.train, "Folder of class folders")
      ->required()
      ->type_name("DIR");
  verb->add_option("--test", options->test, "The same for the test set")->type_name("DIR");
  verb->add_flag("--keep-encoded", options->pack.keep_encoded,
                 "Store the files' bytes as they are: smaller, slower to read");
  set_action(verb, context, [&context, options] {
    if (!options->test.empty()) options->pack.test = options->test;
    options->pack.out = options->target.out;
    return pack_into(options->target, context, [&options](data::Stop stop) {
      options->pack.stop = stop;
      return data::pack_images(options->pack);
    });
  });
}

/// "3,224,224"; none where it is not three numbers.
std::optional<data::ImageShape> parse_image(const std::string& text) {
  constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();
  const auto shape = base::parse_shape(text);
  if (!shape.ok() || shape->rank() != 3 || !shape->complete()) return std::nullopt;
  for (const std::int64_t extent : shape->dims()) {
    if (extent > kMost) return std::nullopt;
  }
  const auto side = [&shape](int axis) { return static_cast<std::uint32_t>((*shape)[axis]); };
  return data::ImageShape{side(0), side(1), side(2)};
}

void add_pack_generated(CLI::App& pack, Context& context) {
  CLI::App* verb = pack.add_subcommand(
      "generated",
      describe("Make images of stripes and noise, to measure and to try without a data set",
               {"troupe data pack generated --out data/generated",
                "troupe data pack generated --image 1,28,28 --classes 10 --train 6000 --out "
                "data/small"}));
  struct Options {
    data::GeneratedPackOptions pack;
    PackTarget target;
  };
  const auto options = std::make_shared<Options>();
  add_target(verb, options->target);
  const data::ImageShape& image = options->pack.image;
  verb->add_option_function<std::string>(
          "--image",
          [options](const std::string& text) { options->pack.image = *parse_image(text); },
          "Channels, height and width; an image has at most 64 Mi pixels")
      ->default_str(fmt::format("{},{},{}", image.channels, image.height, image.width))
      ->check([](const std::string& text) -> std::string {
        return parse_image(text) ? "" : fmt::format("'{}' is not three numbers C,H,W", text);
      })
      ->type_name("C,H,W");
  const auto add = [verb](const char* name, auto& number, const char* meaning, std::uint64_t low,
                          std::uint64_t high) {
    set_range(verb->add_option(name, number, meaning)->capture_default_str(), low, high);
  };
  data::GeneratedPackOptions& made = options->pack;
  add("--classes", made.classes, "Classes", 1, data::kGeneratedClassesMax);
  add("--train", made.train, "Training images", 1, data::kPackedMax);
  add("--test", made.test, "Test images; 0: no test.rec", 0, data::kPackedMax);
  add("--seed", made.seed, "The same seed makes the same bytes", 0, UINT64_MAX);
  set_action(verb, context, [&context, options] {
    options->pack.out = options->target.out;
    return pack_into(options->target, context, [&options](data::Stop stop) {
      options->pack.stop = stop;
      return data::pack_generated(options->pack);
    });
  });
}

}  // namespace

void add_data_verbs(CLI::App& app, Context& context) {
  CLI::App* family = add_family(app, "data", "Make, index and check record files");
  CLI::App* pack = add_family(*family, "pack", "Turn images into record files");
  add_pack_fashion(*pack, context);
  add_pack_idx(*pack, context);
  add_pack_images(*pack, context);
  add_pack_generated(*pack, context);

  const auto options = std::make_shared<FileOptions>();
  CLI::App* index = family->add_subcommand(
      "index", describe("Make a record file's .idx anew", {"troupe data index train.rec"}));
  index->add_option("FILE.rec", options->path, "The record file")->required()->type_name("");
  add_json_flag(*index, options->json);
  set_action(index, context, [&context, options] {
    return finish(data::index_record_file(options->path), options->json, context);
  });
  CLI::App* verb = family->add_subcommand(
      "check", describe("Count records; name the first damage and exit 3 where there is any",
                        {"troupe data check train.rec", "troupe data check train.rec --decode"}));
  verb->add_option("FILE.rec", options->path, "The record file")->required()->type_name("");
  verb->add_flag("--decode", options->decode, "Decode every image too");
  add_json_flag(*verb, options->json);
  set_action(verb, context, [&context, options] { return check(*options, context); });
}

}  // namespace troupe::apps
