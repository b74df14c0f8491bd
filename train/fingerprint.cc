// SPDX-License-Identifier: Apache-2.0
// The fingerprint's lines and their comparison. Every struct of a job is opened by a structured
// binding, so a new field does not compile until somebody has said here whether bits depend on it.
#include "train/fingerprint.h"

#include <fmt/format.h>

#include "base/hash.h"
#include "symbol/kernel_choices.h"

namespace troupe::train {
namespace {

// Long texts (graphs) stand as their hash.
std::string digest(std::string_view text) {
  if (text.empty()) return "";
  base::Sha256 sha;
  sha.update(text);
  return base::to_hex(sha.finish());
}

std::string tier(const schemas::TierSpec& spec) {
  const auto& [mode, max_staleness] = spec;
  return max_staleness ? fmt::format("{}, at most {}", name_of(mode), *max_staleness)
                       : std::string(name_of(mode));
}

template <typename T>
std::string optional(const std::optional<T>& value) {
  return value ? fmt::format("{}", *value) : "default";
}

template <typename T>
std::string list(const std::vector<T>& values) {
  return fmt::format("({})", fmt::join(values, ", "));
}

constexpr std::string_view kGiven = "given";

class Lines {
 public:
  template <typename T>
  Lines& add(std::string_view key, const T& value) {
    text_ += fmt::format("{} = {}\n", key, value);
    return *this;
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

/// What may differ between two runs that end in the same bits.
template <typename... Fields>
void no_bit_depends_on(const Fields&...) {}

void add_model(Lines& lines, const schemas::ModelSpec& model) {
  const auto& [network, symbol, symbol_json, classes, input, dropout, bias] = model;
  lines.add("model.network", network)
      .add("model.symbol", digest(symbol_json))
      .add("model.classes", classes)
      .add("model.input", list(input))
      .add("model.dropout", optional(dropout))
      .add("model.bias", optional(bias));
  no_bit_depends_on(symbol);  // the graph counts, not where it lies
}

void add_data(Lines& lines, const schemas::DataSpec& data) {
  const auto& [train, test, mean, std, batch, test_batch, prefetch_threads, prefetch_batches,
               on_bad_record, augment] = data;
  lines.add("data.mean", list(mean))
      .add("data.std", list(std))
      .add("data.batch", batch)
      .add("data.on_bad_record", name_of(on_bad_record));
  const auto& [crop_padding, mirror] = augment;
  // Old checkpoints have no such lines.
  if (crop_padding != 0) lines.add("data.augment.crop_padding", crop_padding);
  if (mirror) lines.add("data.augment.mirror", mirror);
  // The records of training count: the manifest compares them, wherever they lie. Scores are
  // counts.
  no_bit_depends_on(train, test, test_batch);
  no_bit_depends_on(prefetch_threads, prefetch_batches);  // a batch is a function of its step
}

void add_optimizer(Lines& lines, const schemas::OptimizerSpec& optimizer) {
  const auto& [name, lr, momentum, wd, clip_gradient, clip_norm, symbol, symbol_json, decay] =
      optimizer;
  lines.add("train.optimizer.name", name)
      .add("train.optimizer.lr", lr)
      .add("train.optimizer.momentum", momentum)
      .add("train.optimizer.wd", wd)
      .add("train.optimizer.clip_gradient", clip_gradient)
      .add("train.optimizer.symbol", digest(symbol_json))
      .add("train.optimizer.decay", name_of(decay));
  if (clip_norm != 0.0) lines.add("train.optimizer.clip_norm", clip_norm);  // old checkpoints: no
  no_bit_depends_on(symbol);                                                // as in the model
}

void add_schedule(Lines& lines, const schemas::ScheduleSpec& schedule) {
  const auto& [kind, warmup, warmup_lr, final_lr] = schedule;
  const auto& [count, unit] = warmup;
  lines.add("train.schedule.name", name_of(kind))
      .add("train.schedule.warmup", count)
      .add("train.schedule.warmup_unit", name_of(unit))
      .add("train.schedule.warmup_lr", warmup_lr)
      .add("train.schedule.final_lr", final_lr);
}

void add_initializer(Lines& lines, const schemas::InitializerSpec& initializer) {
  const auto& [kind, scale, fan, distribution] = initializer;
  lines.add("train.initializer.name", name_of(kind))
      .add("train.initializer.scale", optional(scale))
      .add("train.initializer.fan", name_of(fan))
      .add("train.initializer.distribution", name_of(distribution));
}

void add_train(Lines& lines, const schemas::TrainSpec& train) {
  const auto& [epochs, max_steps, optimizer, schedule, initializer, weights, log_every, score_every,
               hold, non_finite, keys] = train;
  lines.add("train.epochs", epochs);
  add_optimizer(lines, optimizer);
  add_schedule(lines, schedule);
  add_initializer(lines, initializer);
  // Not where they lay: the first checkpoint has them, and no resume reads that file.
  lines.add("train.weights", weights.empty() ? "" : kGiven);
  for (const auto& [match, lr_mult, wd_mult] : keys) {
    lines.add("train.keys", fmt::format("{}: lr_mult {}, wd_mult {}", match, optional(lr_mult),
                                        optional(wd_mult)));
  }
  no_bit_depends_on(max_steps);  // where a run ends early, not how it gets there
  no_bit_depends_on(log_every, score_every, hold);
  no_bit_depends_on(non_finite);  // it ends a run or changes nothing
}

void add_workers(Lines& lines, const schemas::WorkersSpec& workers) {
  const auto& [machines, devices, threads, device, memory, gpu_graphs, gpu_sums] = workers;
  lines.add("workers.machines", machines)
      .add("workers.devices", devices)
      .add("workers.threads", threads);
  no_bit_depends_on(device);  // but for the numeric class, which says what computes
  no_bit_depends_on(memory, gpu_graphs, gpu_sums);
}

void add_consistency(Lines& lines, const schemas::ConsistencySpec& consistency) {
  const auto& [device, cluster] = consistency;
  lines.add("consistency.device", tier(device)).add("consistency.cluster", tier(cluster));
}

void add_numerics(Lines& lines, const schemas::NumericsSpec& numerics) {
  const auto& [isa, layout, reference_only, dtype, winograd, tf32, kernels, kernels_json,
               gradient_wire, weight_wire, loss_scale, loss_scale_steps] = numerics;
  lines.add("numerics.isa", name_of(isa))
      .add("numerics.layout", name_of(layout))
      .add("numerics.reference_only", reference_only)
      .add("numerics.dtype", base::dtype_name(dtype));
  // Old checkpoints have no such lines.
  if (!winograd) lines.add("numerics.winograd", winograd);
  if (tf32) lines.add("numerics.tf32", tf32);
  if (!kernels_json.empty()) {
    const auto choices = symbol::KernelChoices::from_json(kernels_json, kernels);
    // A damaged text opens no job.
    lines.add("numerics.kernels", digest(choices.ok() ? choices->decisions() : kernels_json));
  }
  no_bit_depends_on(kernels);  // as in the model
  if (gradient_wire != schemas::WireType::same) {
    lines.add("numerics.gradient_wire", name_of(gradient_wire));
  }
  if (weight_wire != schemas::WireType::same) {
    lines.add("numerics.weight_wire", name_of(weight_wire));
  }
  if (dtype == base::DType::f16) {
    lines.add("numerics.loss_scale", loss_scale).add("numerics.loss_scale_steps", loss_scale_steps);
  }
}

/// The order of additions belongs to the job, whatever server does them.
void leave_out(const schemas::ServersSpec& servers) {
  const auto& [shards, threads] = servers;
  no_bit_depends_on(shards, threads);
}

/// A run goes on in the bits of one that was never interrupted.
void leave_out(const schemas::CheckpointSpec& checkpoint) {
  const auto& [dir, every, keep, resume, change_numerics] = checkpoint;
  no_bit_depends_on(dir, every, keep, resume, change_numerics);
}

/// What is recomputed has the bits of what is kept.
void leave_out(const schemas::MemorySpec& memory) {
  const auto& [recompute, budget, sub_batch, device_limit] = memory;
  no_bit_depends_on(recompute, budget, sub_batch, device_limit);
}

std::string_view take_line(std::string_view& text) {
  const auto end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

/// True for a line that says that weights were given: those of old checkpoints say where they lay.
bool gives_weights(std::string_view line) {
  constexpr std::string_view kKey = "train.weights = ";
  return line.starts_with(kKey) && line.size() > kKey.size();
}

std::string_view key_of(std::string_view line) {
  return line.substr(0, line.find(" = "));
}

/// True when one of the lines is of `line`'s key.
bool has_key_of(std::string_view lines, std::string_view line) {
  while (!lines.empty()) {
    if (key_of(take_line(lines)) == key_of(line)) return true;
  }
  return false;
}

}  // namespace

std::string job_fingerprint(const schemas::JobSpec& job) {
  const auto& [name, seed, reproducible, model, data, train, workers, servers, consistency,
               checkpoint, numerics, memory, limits] = job;
  Lines lines;
  lines.add("seed", seed);
  add_model(lines, model);
  add_data(lines, data);
  add_train(lines, train);
  add_workers(lines, workers);
  add_consistency(lines, consistency);
  add_numerics(lines, numerics);
  leave_out(servers);
  leave_out(checkpoint);
  leave_out(memory);
  no_bit_depends_on(name, reproducible);
  // They bound memory, queues and time; but a longer record counts as a damaged one.
  const std::uint64_t longest = limits.record_bytes_max;
  if (data.on_bad_record == schemas::BadRecord::skip &&
      longest != base::Limits().record_bytes_max) {
    lines.add("limits.record_bytes_max", longest);
  }
  return lines.take();
}

base::Status check_fingerprint(std::string_view checkpoint, std::string_view there,
                               std::string_view here) {
  while (!there.empty() || !here.empty()) {
    const std::string_view theirs = take_line(there);
    const std::string_view ours = take_line(here);
    if (theirs == ours || (gives_weights(theirs) && gives_weights(ours))) continue;
    // A key may have several lines or none, so these two may be of different keys: then the one
    // that the other side does not have is the difference.
    const bool same_key = key_of(theirs) == key_of(ours);
    const bool only_here = !same_key && !ours.empty() && !has_key_of(there, ours);
    const bool only_there = !same_key && !only_here;
    const auto quoted = [](std::string_view line) { return fmt::format("'{}'", line); };
    return base::error(base::Errc::failed_precondition,
                       "{} is of another job: there {}, here {}; choose another "
                       "checkpoint.dir or resume with the job it came from",
                       checkpoint, only_here ? "nothing" : quoted(theirs),
                       only_there ? "nothing" : quoted(ours));
  }
  return {};
}

}  // namespace troupe::train
