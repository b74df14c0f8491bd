// SPDX-License-Identifier: Apache-2.0
// The fingerprint's lines and their comparison.
#include "train/fingerprint.h"

#include <fmt/format.h>

#include "base/hash.h"

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
  const std::string_view mode = name_of(spec.mode);
  return spec.max_staleness ? fmt::format("{}, at most {}", mode, *spec.max_staleness)
                            : std::string(mode);
}

template <typename T>
std::string optional(const std::optional<T>& value) {
  return value ? fmt::format("{}", *value) : "default";
}

template <typename T>
std::string list(const std::vector<T>& values) {
  return fmt::format("({})", fmt::join(values, ", "));
}

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

std::string_view take_line(std::string_view& text) {
  const auto end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

}  // namespace

std::string job_fingerprint(const schemas::JobSpec& job) {
  const auto& train = job.train;
  Lines lines;
  lines.add("seed", job.seed)
      .add("model.network", job.model.network)
      .add("model.symbol", digest(job.model.symbol_json))
      .add("model.classes", job.model.classes)
      .add("model.input", list(job.model.input))
      .add("model.dropout", optional(job.model.dropout))
      .add("model.bias", optional(job.model.bias))
      .add("data.mean", list(job.data.mean))
      .add("data.std", list(job.data.std))
      .add("data.batch", job.data.batch)
      .add("data.on_bad_record", name_of(job.data.on_bad_record))
      .add("train.epochs", train.epochs)
      .add("train.optimizer.name", train.optimizer.name)
      .add("train.optimizer.lr", train.optimizer.lr)
      .add("train.optimizer.momentum", train.optimizer.momentum)
      .add("train.optimizer.wd", train.optimizer.wd)
      .add("train.optimizer.clip_gradient", train.optimizer.clip_gradient)
      .add("train.optimizer.symbol", digest(train.optimizer.symbol_json))
      .add("train.schedule.name", name_of(train.schedule.kind))
      .add("train.schedule.warmup", train.schedule.warmup.count)
      .add("train.schedule.warmup_unit", name_of(train.schedule.warmup.unit))
      .add("train.schedule.warmup_lr", train.schedule.warmup_lr)
      .add("train.schedule.final_lr", train.schedule.final_lr)
      .add("train.initializer.name", name_of(train.initializer.kind))
      .add("train.initializer.scale", optional(train.initializer.scale))
      .add("train.initializer.fan", name_of(train.initializer.fan))
      .add("train.initializer.distribution", name_of(train.initializer.distribution))
      .add("train.weights", train.weights)
      .add("workers.machines", job.workers.machines)
      .add("workers.devices", job.workers.devices)
      .add("workers.threads", job.workers.threads)
      .add("consistency.device", tier(job.consistency.device))
      .add("consistency.cluster", tier(job.consistency.cluster))
      .add("numerics.isa", name_of(job.numerics.isa))
      .add("numerics.layout", name_of(job.numerics.layout))
      .add("numerics.reference_only", job.numerics.reference_only)
      .add("numerics.dtype", base::dtype_name(job.numerics.dtype));
  return lines.take();
}

base::Status check_fingerprint(std::string_view checkpoint, std::string_view there,
                               std::string_view here) {
  while (!there.empty() || !here.empty()) {
    const std::string_view theirs = take_line(there);
    const std::string_view ours = take_line(here);
    if (theirs == ours) continue;
    return base::error(base::Errc::failed_precondition,
                       "{} is of another job: there '{}', here '{}'; choose another "
                       "checkpoint.dir or resume with the job it came from",
                       checkpoint, theirs, ours);
  }
  return {};
}

}  // namespace troupe::train
