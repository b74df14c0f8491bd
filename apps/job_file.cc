// SPDX-License-Identifier: Apache-2.0
// The keys of a job file, section by section, and the checks across them.
#include "apps/job_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <iostream>
#include <optional>

#include "apps/limits_file.h"
#include "base/file.h"
#include "base/name.h"
#include "base/units.h"
#include "data/batch_iterator.h"
#include "ops/numerics.h"
#include "schemas/codec.h"
#include "store/initializer.h"
#include "store/loss_scale.h"
#include "store/step_judge.h"
#include "symbol/kernel_choices.h"
#include "symbol/networks/networks.h"

namespace troupe::apps {
namespace {

using schemas::JobSpec;
using schemas::kNames;
using schemas::Period;

constexpr std::uint32_t kRanksMax = 65'536;

/// Reads an optional member.
template <typename T, typename... Range>
void read_optional(Section& section, std::string_view key, std::optional<T>& out, Range... range) {
  T value{};
  if (section.read(key, value, range...)) out = value;
}

void read_period(Section& section, std::string_view key, Period& out) {
  if (section.kind(key) == ValueKind::absent) return;
  constexpr std::string_view kExpected = "a period like \"500 steps\" or \"2 epochs\"";
  std::string text;
  if (section.kind(key) != ValueKind::text || !section.read(key, text, EmptyText::allowed)) {
    section.fail_value(key, kExpected);
    return;
  }
  const auto quantity = base::parse_quantity(text);
  const std::string unit = quantity.ok() ? quantity.value().unit : "";
  const bool steps = unit == "steps" || unit == "step";
  const auto count = quantity.ok() ? static_cast<std::uint64_t>(quantity.value().number) : 0;
  if ((!steps && unit != "epochs" && unit != "epoch") || quantity.value().number > 1e15 ||
      static_cast<double>(count) != quantity.value().number) {
    section.fail_value(key, kExpected);
    return;
  }
  out = {count, steps ? Period::Unit::steps : Period::Unit::epochs};
}

/// A table; anything else in its place is an error.
Section table_of(Section& parent, std::string_view key) {
  const ValueKind kind = parent.kind(key);
  if (kind != ValueKind::absent && kind != ValueKind::table) parent.fail_value(key, "a table");
  return parent.section(key);
}

/// Of those keys that are there: they are right, and do nothing.
void warn_of(Section& section, std::initializer_list<std::string_view> keys, std::string_view why) {
  for (const std::string_view key : keys) section.warn(key, why);
}

void read_model(Section section, schemas::ModelSpec& model) {
  const std::vector<std::string> names = symbol::network_names();
  const std::vector<std::string_view> choices(names.begin(), names.end());
  std::size_t index = 0;
  if (section.choose("network", choices, index)) {
    model.network = names[index];
    model.classes = static_cast<std::uint32_t>(symbol::networks()[index].classes);
  }
  section.read("symbol", model.symbol);
  section.read("classes", model.classes, IntegerRange{1});
  std::vector<std::uint64_t> input;
  if (section.read("input", input)) model.input.assign(input.begin(), input.end());
  read_optional(section, "dropout", model.dropout, RealRange{0.0, 0.999});
  read_optional(section, "bias", model.bias);
  const symbol::NetworkInfo* const known = symbol::find_network(model.network);
  if (known != nullptr && model.dropout) {
    const base::Status fits = symbol::check_dropout(*known, *model.dropout);
    if (!fits.ok()) section.fail("dropout", fits.text());
  }
  // A name that is none has been refused already.
  const bool named = section.kind("network") != ValueKind::absent;
  if (named != model.symbol.empty()) {
    section.fail(named ? "symbol" : "network",
                 "exactly one of network = \"NAME\" and symbol = \"FILE.json\" is needed");
  }
  if (!named) {
    warn_of(section, {"classes", "dropout", "bias"},
            "is of built-in networks: with model.symbol it does nothing");
  }
  section.finish();
}

/// What the program computes with in f32 is at most this.
constexpr double kLargest = 1e38;

void read_channels(Section& section, std::string_view key, double least, double most,
                   std::vector<float>& out) {
  std::vector<double> values;
  if (!section.read(key, values)) return;
  for (const double value : values) {
    if (value >= least && value <= most) continue;
    return section.fail_value(key, fmt::format("numbers from {:g} to {:g}", least, most));
  }
  out.assign(values.begin(), values.end());
}

void read_augment(Section section, schemas::AugmentSpec& augment) {
  section.read("crop_padding", augment.crop_padding, IntegerRange{0, data::kImageSideMax});
  section.read("mirror", augment.mirror);
  section.finish();
}

void read_data(Section section, schemas::DataSpec& data) {
  if (!section.read("train", data.train) && section.kind("train") == ValueKind::absent) {
    section.fail_value("train", "the path of a .rec file");
  }
  section.read("test", data.test, EmptyText::allowed);
  constexpr double kMeanMost = 1e30, kStdLeast = 1e-30, kStdMost = 1e30;  // numbers of f32
  read_channels(section, "mean", -kMeanMost, kMeanMost, data.mean);
  read_channels(section, "std", kStdLeast, kStdMost, data.std);
  section.read("batch", data.batch, IntegerRange{1});
  section.read("test_batch", data.test_batch, IntegerRange{1});
  section.read("prefetch_threads", data.prefetch_threads,
               IntegerRange{1, data::kPrefetchThreadsMax});
  section.read("prefetch_batches", data.prefetch_batches,
               IntegerRange{1, data::kPrefetchBatchesMax});
  section.choose("on_bad_record", kNames<schemas::BadRecord>, data.on_bad_record);
  read_augment(table_of(section, "augment"), data.augment);
  if (!data.mean.empty() && !data.std.empty() && data.mean.size() != data.std.size()) {
    section.fail("std",
                 fmt::format("{} here but {} in data.mean",
                             base::format_counted(data.std.size(), "channel"), data.mean.size()));
  }
  section.finish();
}

void read_optimizer(Section section, schemas::OptimizerSpec& optimizer) {
  const bool named = section.kind("name") != ValueKind::absent;
  std::string name;
  if (section.read("name", name) && name != "sgd") {
    section.fail_value("name", "\"sgd\" (symbol = \"update.json\" gives any other)");
  }
  if (section.read("symbol", optimizer.symbol)) {
    optimizer.name.clear();
    if (named) section.fail("symbol", "give either name or symbol");
  }
  section.read("lr", optimizer.lr, RealRange{0.0, kLargest, true});
  section.read("momentum", optimizer.momentum, RealRange{0.0, 0.999999});
  section.read("wd", optimizer.wd, RealRange{0.0, kLargest});
  section.read("clip_gradient", optimizer.clip_gradient, RealRange{0.0, kLargest});
  section.read("clip_norm", optimizer.clip_norm, RealRange{.least = 0.0});
  constexpr double kClipLeast = 1e-30;  // less may be 0 in f32, which cuts nothing
  if (optimizer.symbol.empty() && optimizer.clip_gradient > 0.0 &&
      optimizer.clip_gradient < kClipLeast) {
    section.fail_value("clip_gradient", "0, which cuts nothing, or a number >= 1e-30");
  }
  const base::Status clip = store::check_clip_norm(optimizer.clip_norm);
  if (!clip.ok()) section.fail("clip_norm", clip.text());
  section.choose("decay", kNames<schemas::Decay>, optimizer.decay);
  if (!optimizer.symbol.empty()) {
    warn_of(section, {"momentum", "wd", "clip_gradient", "decay"},
            "is of sgd: with optimizer.symbol it does nothing");
  }
  section.finish();
}

void read_schedule(Section section, const schemas::TrainSpec& train,
                   schemas::ScheduleSpec& schedule) {
  section.choose("name", kNames<schemas::ScheduleKind>, schedule.kind);
  read_period(section, "warmup", schedule.warmup);
  section.read("warmup_lr", schedule.warmup_lr, RealRange{0.0, kLargest});
  section.read("final_lr", schedule.final_lr, RealRange{0.0, kLargest});
  if (schedule.kind == schemas::ScheduleKind::constant) {
    section.warn("final_lr", "is of other schedules: with \"constant\" it does nothing");
  }
  if (schedule.warmup.count == 0) {
    section.warn("warmup_lr", "does nothing without a warmup");
  }
  if (schedule.warmup.unit == Period::Unit::epochs && schedule.warmup.count >= train.epochs) {
    section.fail("warmup",
                 fmt::format("no epoch is left behind it; train.epochs is {}", train.epochs));
  }
  section.finish();
}

void read_initializer(Section& train, schemas::InitializerSpec& initializer) {
  if (train.kind("initializer") == ValueKind::text) {
    train.choose("initializer", kNames<schemas::InitializerKind>, initializer.kind);
    return;
  }
  Section section = table_of(train, "initializer");
  section.choose("name", kNames<schemas::InitializerKind>, initializer.kind);
  using Kind = schemas::InitializerKind;
  const store::ScaleRange scales = store::scale_range(initializer.kind);
  read_optional(section, "scale", initializer.scale, RealRange{scales.least, scales.most});
  section.choose("fan", kNames<schemas::FanKind>, initializer.fan);
  section.choose("distribution", kNames<schemas::Distribution>, initializer.distribution);
  const bool of_fans = initializer.kind == Kind::xavier || initializer.kind == Kind::msra;
  if (!of_fans) section.warn("fan", "is of xavier and msra: it does nothing");
  if (initializer.kind != Kind::xavier) {
    section.warn("distribution", "is of xavier: it does nothing");
  }
  section.finish();
}

void read_keys(Section& train, std::vector<schemas::KeyRule>& rules) {
  for (Section& section : train.sections("keys")) {
    schemas::KeyRule& rule = rules.emplace_back();
    if (!section.read("match", rule.match) && section.kind("match") == ValueKind::absent) {
      section.fail_value("match", "the name of a parameter, in which * stands for any letters");
    }
    read_optional(section, "lr_mult", rule.lr_mult, RealRange{});
    read_optional(section, "wd_mult", rule.wd_mult, RealRange{});
    section.finish();
  }
  if (rules.size() > schemas::kKeyRulesMax) {
    train.fail("keys",
               fmt::format("{} rules; the most are {}", rules.size(), schemas::kKeyRulesMax));
  }
}

void read_train(Section section, schemas::TrainSpec& train) {
  section.read("epochs", train.epochs, IntegerRange{1});
  read_optional(section, "max_steps", train.max_steps, IntegerRange{1});
  read_optimizer(table_of(section, "optimizer"), train.optimizer);
  read_schedule(table_of(section, "schedule"), train, train.schedule);
  read_initializer(section, train.initializer);
  section.read("weights", train.weights, EmptyText::allowed);
  read_period(section, "log_every", train.log_every);
  read_period(section, "score_every", train.score_every);
  section.choose("hold", kNames<schemas::Hold>, train.hold);
  section.choose("non_finite", kNames<schemas::NonFinite>, train.non_finite);
  read_keys(section, train.keys);
  if (train.score_every.unit != Period::Unit::epochs) {
    section.fail_value("score_every", "a period of whole epochs");
  }
  section.finish();
}

/// `key`: bytes as a number, or as text with a unit.
void read_size(Section& section, std::string_view key, std::uint64_t& out) {
  if (section.kind(key) != ValueKind::text) {
    section.read(key, out);
    return;
  }
  std::string text;
  section.read(key, text, EmptyText::allowed);
  const auto bytes = base::parse_bytes(text);
  if (!bytes.ok()) return section.fail(key, bytes.status().text());
  out = bytes.value();
}

/// "gpu", "gpu:4", "cpu:2"; false for what is nothing like it.
bool parse_worker_devices(std::string_view text, schemas::WorkersSpec& workers) {
  const std::size_t colon = text.find(':');
  const auto names = kNames<schemas::WorkerDevice>;
  const auto name = std::find(names.begin(), names.end(), text.substr(0, colon));
  if (name == names.end()) return false;
  const auto device = static_cast<schemas::WorkerDevice>(name - names.begin());
  std::uint32_t count = 1;
  if (colon == std::string_view::npos) {
    if (device == schemas::WorkerDevice::cpu) return false;
  } else {
    const char* end = text.data() + text.size();
    const auto [rest, code] = std::from_chars(text.data() + colon + 1, end, count);
    if (code != std::errc() || rest != end || count < 1 || count > kRanksMax) return false;
  }
  workers.device = device;
  workers.devices = count;
  return true;
}

/// Whether it says what they are.
bool read_worker_devices(Section& section, schemas::WorkersSpec& workers) {
  if (section.kind("devices") != ValueKind::text) {
    section.read("devices", workers.devices, IntegerRange{1, kRanksMax});
    return true;
  }
  std::string text;
  section.read("devices", text, EmptyText::allowed);
  if (parse_worker_devices(text, workers)) return true;
  section.fail_value("devices", fmt::format("a number, \"cpu:N\", \"gpu\" or \"gpu:N\" with N "
                                            "from 1 to {}",
                                            kRanksMax));
  return false;
}

void read_workers(Section section, schemas::WorkersSpec& workers) {
  section.read("machines", workers.machines, IntegerRange{1, kRanksMax});
  const bool known = read_worker_devices(section, workers);
  section.read("threads", workers.threads, IntegerRange{1, schemas::kThreadsMax});
  read_size(section, "memory", workers.memory);
  section.read("gpu_graphs", workers.gpu_graphs);
  section.read("gpu_sums", workers.gpu_sums);
  if (known && workers.memory != 0 && workers.device == schemas::WorkerDevice::cpu) {
    section.fail("memory", "is of GPUs; workers.devices = \"gpu:N\" asks for them");
  }
  const std::uint64_t ranks = std::uint64_t{workers.machines} * workers.devices;
  if (ranks > kRanksMax) {
    section.fail("devices",
                 fmt::format("machines x devices = {} is more than {}", ranks, kRanksMax));
  }
  section.finish();
}

void read_servers(Section section, schemas::ServersSpec& servers) {
  section.read("shards", servers.shards, IntegerRange{1, kRanksMax});
  section.read("threads", servers.threads, IntegerRange{1, schemas::kThreadsMax});
  section.finish();
}

void read_tier(Section& parent, std::string_view key, schemas::TierSpec& tier) {
  const ValueKind kind = parent.kind(key);
  if (kind == ValueKind::text) {
    parent.choose(key, kNames<schemas::ConsistencyMode>, tier.mode);
  } else if (kind != ValueKind::table && kind != ValueKind::absent) {
    parent.fail_value(key, "\"sequential\", \"eventual\" or a table");
  }
  Section section = parent.section(key);
  section.choose("mode", kNames<schemas::ConsistencyMode>, tier.mode);
  read_optional(section, "max_staleness", tier.max_staleness, IntegerRange{0});
  if (tier.max_staleness && tier.mode == schemas::ConsistencyMode::sequential) {
    section.fail("max_staleness", "means something only with mode = \"eventual\"");
  }
  section.finish();
}

void read_consistency(Section section, schemas::ConsistencySpec& consistency) {
  read_tier(section, "device", consistency.device);
  read_tier(section, "cluster", consistency.cluster);
  section.finish();
}

void read_checkpoint(Section section, schemas::CheckpointSpec& checkpoint) {
  section.read("dir", checkpoint.dir, EmptyText::allowed);
  read_period(section, "every", checkpoint.every);
  section.read("keep", checkpoint.keep);
  section.read("resume", checkpoint.resume);
  section.read("change_numerics", checkpoint.change_numerics);
  if (checkpoint.dir.empty()) {
    if (checkpoint.every.count != 0) section.fail("every", "needs checkpoint.dir");
    warn_of(section, {"keep", "resume", "change_numerics"}, "does nothing without checkpoint.dir");
  }
  section.finish();
}

void read_numerics(Section section, schemas::NumericsSpec& numerics) {
  section.choose("isa", kNames<schemas::Isa>, numerics.isa);
  section.choose("layout", kNames<schemas::LayoutChoice>, numerics.layout);
  section.read("reference_only", numerics.reference_only);
  section.read("winograd", numerics.winograd);
  section.read("tf32", numerics.tf32);
  section.read("kernels", numerics.kernels, EmptyText::allowed);
  if (numerics.reference_only && !numerics.kernels.empty()) {
    section.fail("kernels", "reference_only leaves no choice of kernels; leave one of the two out");
  }
  std::size_t choice = 0;
  constexpr std::array<std::string_view, 4> kTypes = {"f32", "f64", "bf16", "f16"};
  constexpr std::array<base::DType, 4> kDTypes = {base::DType::f32, base::DType::f64,
                                                  base::DType::bf16, base::DType::f16};
  if (section.choose("dtype", kTypes, choice)) numerics.dtype = kDTypes[choice];
  if (numerics.tf32 && numerics.dtype != base::DType::f32) {
    section.fail("tf32", "needs dtype = \"f32\"");
  }
  section.choose("gradient_wire", kNames<schemas::WireType>, numerics.gradient_wire);
  section.choose("weight_wire", kNames<schemas::WireType>, numerics.weight_wire);
  section.read("loss_scale", numerics.loss_scale, RealRange{.least = 1.0});
  section.read("loss_scale_steps", numerics.loss_scale_steps,
               IntegerRange{0, store::kLossScaleStepsMax});
  const schemas::NumericsSpec plain;
  const bool scaled = numerics.loss_scale != plain.loss_scale;
  if ((scaled || numerics.loss_scale_steps != plain.loss_scale_steps) &&
      numerics.dtype != base::DType::f16) {
    section.fail(scaled ? "loss_scale" : "loss_scale_steps", "needs dtype = \"f16\"");
  }
  const base::Status scale =
      store::check_loss_scale({numerics.loss_scale, numerics.loss_scale_steps});
  if (!scale.ok()) section.fail("loss_scale", scale.text());
  section.finish();
}

void read_memory(Section section, schemas::MemorySpec& memory) {
  const bool chosen = section.choose("recompute", kNames<schemas::Recompute>, memory.recompute);
  read_size(section, "budget", memory.budget);
  section.read("sub_batch", memory.sub_batch, IntegerRange{0, 1 << 20});
  read_size(section, "device_limit", memory.device_limit);
  if (chosen && memory.budget != 0) {
    section.fail("recompute", "a budget decides what is recomputed; leave one of the two out");
  }
  section.finish();
}

/// A file that trains on GPUs and, with other `workers.devices` alone, on CPUs is right on both: so
/// what is of GPUs is no error for workers on CPUs.
void warn_of_cpus(Section& root, const JobSpec& spec) {
  constexpr std::string_view kNothing = "is of GPUs, and the workers are on CPUs: it does nothing";
  if (spec.workers.device != schemas::WorkerDevice::cpu) return;
  if (spec.memory.device_limit != 0) root.section("memory").warn("device_limit", kNothing);
  if (spec.numerics.tf32) root.section("numerics").warn("tf32", kNothing);
  const base::DType dtype = spec.numerics.dtype;
  const bool bf16 = dtype == base::DType::bf16, capped = spec.numerics.isa != schemas::Isa::native;
  if (!base::is_16_bit(dtype) || (bf16 && !capped && ops::has_bf16_products())) return;
  root.section("numerics")
      .warn("dtype",
            fmt::format("\"{}\" is slower than \"f32\" on CPUs{}: kernels convert to f32 "
                        "and back",
                        base::dtype_name(dtype), bf16 ? " without AMX or avx512_bf16" : ""));
}

void read_job(Section root, JobFile& job) {
  JobSpec& spec = job.spec;
  if (!root.read("name", spec.name)) {
    if (root.kind("name") == ValueKind::absent) root.fail_value("name", "a name for the job");
  } else if (!base::plain_name(spec.name)) {
    root.fail_value("name", base::kPlainNameRule);
  }
  root.read("seed", spec.seed);
  root.read("reproducible", spec.reproducible);
  read_model(table_of(root, "model"), spec.model);
  read_data(table_of(root, "data"), spec.data);
  read_train(table_of(root, "train"), spec.train);
  read_workers(table_of(root, "workers"), spec.workers);
  read_servers(table_of(root, "servers"), spec.servers);
  read_consistency(table_of(root, "consistency"), spec.consistency);
  if (!spec.consistency.sequential() && spec.ranks() > schemas::kEventualRanksMax) {
    root.section("consistency")
        .fail("cluster", fmt::format("an eventual tier serves {} ranks at most, the job has {}",
                                     schemas::kEventualRanksMax, spec.ranks()));
  }
  read_checkpoint(table_of(root, "checkpoint"), spec.checkpoint);
  read_numerics(table_of(root, "numerics"), spec.numerics);
  const base::Status judged = store::check_judged(spec);
  if (!judged.ok()) root.section("consistency").fail("cluster", judged.text());
  read_memory(table_of(root, "memory"), spec.memory);
  warn_of_cpus(root, spec);
  if (spec.data.test.empty()) {
    constexpr std::string_view kUnscored = "does nothing without data.test";
    root.section("data").warn("test_batch", kUnscored);
    root.section("train").warn("score_every", kUnscored);
    root.section("memory").warn("sub_batch", kUnscored);
  }
  read_job_limits(root, spec.limits, job.errors);
  root.finish();
}

base::Result<std::string> read_standard_input(std::uint64_t bytes_max) {
  std::string text(bytes_max + 1, '\0');
  std::cin.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::cin.gcount()));
  if (text.size() <= bytes_max) return text;
  return base::error(base::Errc::resource_exhausted, "<stdin>: more bytes than the limit of {}",
                     bytes_max);
}

/// Behind a symbolic link ".." is the parent of where that leads, so links in front of the last
/// ".." are followed, and no others.
std::filesystem::path without_climbing(const std::filesystem::path& path) {
  std::filesystem::path climbed, rest;
  for (const std::filesystem::path& part : path) {
    rest /= part;
    if (part != "..") continue;
    climbed /= rest;
    rest.clear();
  }
  std::error_code failed;
  const auto followed = std::filesystem::weakly_canonical(climbed, failed);
  return climbed.empty() || failed ? path : followed / rest;
}

base::Status make_absolute(std::string& path) {
  if (path.empty()) return {};
  std::error_code failed;
  const auto absolute = std::filesystem::absolute(path, failed);
  if (failed) {
    return base::error(base::errc_of_errno(failed.value()), "'{}' has no absolute path: {}", path,
                       failed.message());
  }
  path = without_climbing(absolute).lexically_normal().string();
  return {};
}

/// The text of a file that the job names: of anybody's job, so no pipe is waited for.
base::Status take_in(const std::string& path, std::uint64_t bytes_max, std::string& text) {
  if (path.empty()) return {};
  TROUPE_TRY_ASSIGN(text, base::read_text_file(path, bytes_max));
  return {};
}

/// "; did you mean 'train.optimizer.lr'?", of the one key that is called as `key` and stands in
/// another table; empty where there is none or several.
std::string same_name_elsewhere(const std::string& key, const std::set<std::string>& known) {
  const std::string name = key.substr(key.rfind('.') + 1);
  std::string found;
  for (const std::string& other : known) {
    if (other != name && !other.ends_with("." + name)) continue;
    if (!found.empty()) return {};
    found = fmt::format("; did you mean '{}'?", other);
  }
  return key.find('[') == std::string::npos ? found : "";
}

}  // namespace

JobFile parse_job(const std::string& name, const std::string& text,
                  const std::vector<std::string>& overrides) {
  JobFile job;
  ConfigFile file(name, text);
  for (const std::string& assignment : overrides) file.override_value(assignment);
  if (file.parsed()) read_job(file.root(), job);
  job.keys = file.known_keys();
  std::vector<ConfigError> errors = file.errors();
  for (ConfigError& error : errors) {
    if (error.text == "unknown key") error.text += same_name_elsewhere(error.key, job.keys);
  }
  job.errors.insert(job.errors.begin(), errors.begin(), errors.end());
  // Beside errors they would be of values that are not those that were meant.
  if (job.errors.empty()) {
    job.warnings = file.warnings();
    if (job.spec.checkpoint.dir.empty()) {
      job.warnings.push_back({name, 0, 0, "checkpoint.dir",
                              "is not set: the weights are gone when the job ends, and it cannot "
                              "be resumed"});
    }
  }
  return job;
}

JobFile read_job_file(const std::string& path, const std::vector<std::string>& overrides) {
  const bool piped = path == "-";
  const std::uint64_t bytes_max = base::Limits().job_file_bytes_max;
  const auto text = piped ? read_standard_input(bytes_max)
                          : base::read_text_file(path, bytes_max, base::FileKind::any);
  if (text.ok()) return parse_job(piped ? "<stdin>" : path, text.value(), overrides);
  JobFile job;
  job.errors.push_back({"", 0, 0, "", text.status().text()});
  return job;
}

base::Status prepare_submission(schemas::JobSpec& spec) {
  for (std::string* path :
       {&spec.model.symbol, &spec.data.train, &spec.data.test, &spec.train.optimizer.symbol,
        &spec.train.weights, &spec.checkpoint.dir, &spec.numerics.kernels}) {
    TROUPE_TRY(make_absolute(*path));
  }
  // The job may raise its own limit, but not above what an encoded job can hold.
  const std::uint64_t bytes_max =
      std::min<std::uint64_t>(spec.limits.job_file_bytes_max, schemas::kModelBytesMax);
  const auto take = [bytes_max](const std::string& path, std::string& json, std::string_view key) {
    base::Status taken = take_in(path, bytes_max, json);
    if (taken.ok() && !path.empty() && json.empty()) {
      taken = base::error(base::Errc::data_loss, "{}: symbol JSON, byte 1: not JSON", path);
    }
    return taken.with_context(key);
  };
  TROUPE_TRY(take(spec.model.symbol, spec.model.symbol_json, "model.symbol"));
  schemas::OptimizerSpec& optimizer = spec.train.optimizer;
  TROUPE_TRY(take(optimizer.symbol, optimizer.symbol_json, "train.optimizer.symbol"));
  schemas::NumericsSpec& numerics = spec.numerics;
  base::Status kernels =
      take_in(numerics.kernels, symbol::kKernelChoicesBytesMax, numerics.kernels_json);
  if (kernels.ok() && !numerics.kernels.empty()) {
    kernels = symbol::KernelChoices::from_json(numerics.kernels_json, numerics.kernels).status();
  }
  return kernels.with_context("numerics.kernels");
}

}  // namespace troupe::apps
