// SPDX-License-Identifier: Apache-2.0
// Choosing the start of a run and writing manifests.
#include "train/resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <new>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/log.h"
#include "ops/table.h"
#include "store/checkpoint_size.h"
#include "train/fingerprint.h"

namespace troupe::train {
namespace {

namespace fs = std::filesystem;

/// `name`: what people know the checkpoint by.
base::Status check_manifest(const Job& job, const base::NumericClass& numeric_class,
                            const schemas::Manifest& manifest, const std::string& name) {
  TROUPE_TRY(check_fingerprint(name, manifest.job_fingerprint, job_fingerprint(job.spec)));
  if (manifest.keys != job.keys.keys) {
    return base::error(base::Errc::failed_precondition, "{} has other parameters than the network",
                       name);
  }
  if (manifest.data.records != job.train_data->records()) {
    return base::error(base::Errc::failed_precondition, "{} was trained on {} records, {} has {}",
                       name, manifest.data.records, job.train_data->path().string(),
                       job.train_data->records());
  }
  TROUPE_TRY_ASSIGN(const data::Fingerprint found, job.train_data->fingerprint());
  if (manifest.data.bytes != found.bytes || manifest.data.checksum != found.checksum) {
    return base::error(base::Errc::failed_precondition,
                       "{} was trained on {} bytes of checksum {:#010x}, {} has {} of {:#010x}",
                       name, manifest.data.bytes, manifest.data.checksum,
                       job.train_data->path().string(), found.bytes, found.checksum);
  }
  if (manifest.step > job.steps_end()) {
    return base::error(base::Errc::failed_precondition, "{} is at step {}, the job ends at {}",
                       name, manifest.step, job.steps_end());
  }
  if (!(manifest.numeric_class == numeric_class) && job.spec.reproducible &&
      !job.spec.checkpoint.change_numerics) {
    return base::error(base::Errc::failed_precondition,
                       "{} was written by another numeric class ({}; here {}); "
                       "checkpoint.change_numerics = true goes on with other bits",
                       name, manifest.numeric_class.to_string(), numeric_class.to_string());
  }
  return {};
}

base::Status make_folder(const fs::path& folder) {
  return base::make_folder(folder, base::FileMode::shared).with_context("checkpoint.dir");
}

base::Status begin_at(const Job& job, const base::NumericClass& numeric_class,
                      std::unique_ptr<store::Checkpoint> checkpoint, RunStart& start) {
  const schemas::Manifest& manifest = checkpoint->manifest();
  TROUPE_TRY(check_manifest(job, numeric_class, manifest, checkpoint->path().string()));
  start.step = manifest.step;
  start.checkpoint_path = fs::path(checkpoint->path()).replace_extension().string();
  start.numerics_changed = manifest.numerics_changed || manifest.numeric_class != numeric_class;
  start.checkpoint = std::move(checkpoint);
  return {};
}

/// The job's processes compare their numeric class with the checkpoint's; it is not this one's.
base::Result<Job> open_for_any_class(const schemas::JobSpec& spec, const schemas::JobRoots& roots) {
  const ops::OpTable table = ops::OpTable::build();
  TROUPE_TRY_ASSIGN(const auto opened, open_job(spec, table, roots));
  Job job = *opened;
  job.spec.checkpoint.change_numerics = true;
  return job;
}

/// What the job's optimizer keeps for each parameter.
base::Result<std::vector<std::string>> slots_of(const Job& job) {
  const ops::OpTable table = ops::OpTable::build();
  TROUPE_TRY_ASSIGN(const auto compute,
                    store::SliceCompute::create(table, job.keys.keys, job.rule()));
  return compute->slots();
}

/// Names of the checkpoint's files, and which of them each shard of the run reads.
base::Status find_files(const control::FindStart& find, const Job& job,
                        const store::Checkpoint& checkpoint, control::StartFound& found) {
  TROUPE_TRY_ASSIGN(const auto layout,
                    store::SliceLayout::create(job.keys.keys, find.spec.shards()));
  TROUPE_TRY_ASSIGN(found.files_of_shard, checkpoint.files_by_shard(layout));
  for (const schemas::ShardFile& file : checkpoint.manifest().files) {
    found.files.push_back(file.name);
  }
  return {};
}

}  // namespace

base::Result<RunStart> find_start(const Job& job, const base::NumericClass& numeric_class,
                                  store::CheckpointCheck check) {
  RunStart start;
  const fs::path folder = job.spec.checkpoint.dir;
  if (folder.empty()) return start;
  TROUPE_TRY(make_folder(folder));
  TROUPE_TRY_ASSIGN(const std::uint64_t before, store::highest_generation(folder));
  start.generation = before + 1;
  auto newest = store::Checkpoint::open_newest(folder, check);
  if (!newest.ok()) {
    const base::Status& why = newest.status();
    if (why.code() == base::Errc::not_found) {
      if (store::folder_manifests(folder).set_aside) {
        base::log_warn(
            "checkpoint.dir {}: all its checkpoints were set aside as damaged; beginning "
            "anew",
            folder.string());
      }
      return start;
    }
    if (why.code() != base::Errc::data_loss) return why;
    base::log_warn("{}; beginning anew", why.text());
    return start;
  }
  for (const std::string& line : newest.value()->skipped()) {
    base::log_warn("skipped a checkpoint: {}", line);
  }
  if (!job.spec.checkpoint.resume) {
    return base::error(base::Errc::already_exists,
                       "checkpoint.dir {} holds checkpoints and checkpoint.resume is false",
                       folder.string());
  }
  TROUPE_TRY(begin_at(job, numeric_class, std::move(newest).value(), start));
  return start;
}

base::Result<RunStart> open_start(const Job& job, const base::NumericClass& numeric_class,
                                  const std::string& checkpoint) {
  RunStart start;
  const fs::path folder = job.spec.checkpoint.dir;
  if (!folder.empty()) TROUPE_TRY(make_folder(folder));
  if (checkpoint.empty()) return start;
  TROUPE_TRY_ASSIGN(auto opened, store::Checkpoint::open(
                                     store::manifest_path(folder / fs::path(checkpoint).filename()),
                                     store::CheckpointCheck::manifest));
  TROUPE_TRY(begin_at(job, numeric_class, std::move(opened), start));
  return start;
}

std::function<base::Status(const schemas::Manifest&)> manifest_judge(
    const schemas::JobSpec& spec, const schemas::JobRoots& roots) {
  return [spec, roots, job = std::shared_ptr<const Job>()](
             const schemas::Manifest& manifest) mutable -> base::Status {
    if (job == nullptr) {
      TROUPE_TRY_ASSIGN(Job opened, open_for_any_class(spec, roots));
      job = std::make_shared<const Job>(std::move(opened));
    }
    const std::string name = schemas::checkpoint_name(manifest.step, manifest.generation);
    TROUPE_TRY(check_manifest(*job, ops::numeric_class(1), manifest, name));
    TROUPE_TRY_ASSIGN(const std::vector<std::string> slots, slots_of(*job));
    if (manifest.optimizer_slots == slots) return {};
    return base::error(base::Errc::failed_precondition,
                       "{} has {} state tensors for each parameter, the job's optimizer has {}",
                       name, manifest.optimizer_slots.size(), slots.size());
  };
}

control::StartFound find_job_start(const control::FindStart& find, const schemas::JobRoots& roots) {
  control::StartFound found;
  found.job = find.job;
  found.run = find.run;
  const auto look = [&]() -> base::Status {
    TROUPE_TRY_ASSIGN(const Job job, open_for_any_class(find.spec, roots));
    found.steps_total = job.steps_end();
    TROUPE_TRY_ASSIGN(const auto start,
                      find_start(job, ops::numeric_class(1), store::CheckpointCheck::sizes));
    found.step = start.step;
    found.generation = start.generation;
    found.checkpoint = start.checkpoint_path;
    if (find.copied) {
      TROUPE_TRY_ASSIGN(const std::vector<std::string> slots, slots_of(job));
      TROUPE_TRY_ASSIGN(found.checkpoint_bytes, store::checkpoint_bytes_most(job.keys.keys, slots));
    }
    if (!find.copied || start.checkpoint == nullptr) return {};
    const base::Status files = find_files(find, job, *start.checkpoint, found);
    if (files.code() != base::Errc::data_loss) return files;
    TROUPE_TRY(start.checkpoint->set_aside());  // machines may have it whole, or there is an older
    base::log_warn("{}; the checkpoint was set aside", files.text());
    found.set_aside = true;
    return {};
  };
  // It reads files that a job names, for everybody's coordinator.
  try {
    found.status = look();
  } catch (const std::bad_alloc&) {
    found.status = base::error(base::Errc::resource_exhausted,
                               "no memory to look at the job's data and checkpoints");
  }
  return found;
}

base::Status check_checkpoint_folder(const Job& job, const store::CheckpointWriter& writer,
                                     std::size_t slots) {
  if (job.spec.checkpoint.dir.empty()) return {};
  std::uint64_t bytes = 0;
  for (const schemas::KeyInfo& key : job.keys.keys) {
    const std::uint64_t tensors = key.kind == schemas::KeyKind::dense ? 1 + slots : 1;
    bytes +=
        tensors * static_cast<std::uint64_t>(key.shape.elements()) * base::dtype_size(key.dtype);
  }
  return writer.check_folder(bytes).with_context("checkpoint.dir");
}

base::Result<schemas::TrainingStart> training_start(const Job& job, std::uint64_t step) {
  TROUPE_TRY_ASSIGN(const data::Fingerprint data, job.train_data->fingerprint());
  return schemas::TrainingStart{step, data.records, data.bytes, data.checksum};
}

schemas::Manifest make_manifest(const Job& job, const base::NumericClass& numeric_class,
                                const RunStart& start, const schemas::TrainingStart& training,
                                std::uint64_t step, const std::vector<std::string>& slots) {
  schemas::Manifest manifest;
  const data::Cursor cursor = job.orders->dealer().cursor(step);
  manifest.step = step;
  manifest.epoch = cursor.epoch;
  manifest.samples = job.samples_before(step);
  manifest.generation = start.generation;
  manifest.job_name = job.spec.name;
  manifest.job_fingerprint = job_fingerprint(job.spec);
  manifest.numeric_class = numeric_class;
  manifest.numerics_changed = start.numerics_changed;
  manifest.seed = job.spec.seed;
  manifest.data = {cursor.epoch, cursor.step, training.records, training.bytes, training.checksum};
  manifest.optimizer = job.spec.train.optimizer;
  manifest.optimizer_slots = slots;
  manifest.schedule = job.spec.train.schedule;
  manifest.steps_per_epoch = job.steps_per_epoch();
  manifest.steps_total = job.steps_total();
  manifest.keys = job.keys.keys;
  return manifest;
}

store::CheckpointWriter make_checkpoint_writer(std::shared_ptr<const Job> job,
                                               const base::NumericClass& numeric_class,
                                               const RunStart& start,
                                               const std::vector<std::string>& slots) {
  store::CheckpointRun run;
  run.folder = job->spec.checkpoint.dir;
  run.generation = start.generation;
  if (!start.copied) run.retention = {job->spec.checkpoint.keep, start.step};
  run.keys = job->keys.keys;
  run.slots = slots;
  RunStart from = start;
  from.checkpoint = nullptr;  // its files; the writer lives as long as the run
  run.manifest = [job = std::move(job), numeric_class, from, slots](
                     std::uint64_t step, const schemas::TrainingStart& training) {
    return make_manifest(*job, numeric_class, from, training, step, slots);
  };
  return store::CheckpointWriter(std::move(run));
}

base::Result<FirstValues> FirstValues::create(std::shared_ptr<const Job> owned,
                                              std::shared_ptr<const store::Checkpoint> checkpoint) {
  FirstValues values(std::move(owned), std::move(checkpoint));
  if (values.checkpoint_ == nullptr && !values.job_->spec.train.weights.empty()) {
    auto file = WeightFile::open(*values.job_);
    if (!file.ok()) return file.status().with_context("train.weights");
    values.weights_ = std::make_shared<const WeightFile>(*std::move(file));
  }
  return values;
}

base::Result<store::SliceState> FirstValues::operator()(const schemas::KeyInfo& key,
                                                        const store::SliceInfo& slice,
                                                        const store::SliceCompute& compute,
                                                        base::BufferPool& pool) const {
  if (checkpoint_ != nullptr) {
    auto state = checkpoint_->slice(slice, pool);
    if (state.ok()) {
      const base::Status rounded = compute.round(key, state->values, pool);
      if (!rounded.ok()) state = rounded.with_context(checkpoint_->path().string());
    }
    if (state.status().code() != base::Errc::data_loss) return state;
    const base::Status aside = checkpoint_->set_aside();
    return base::error(base::Errc::data_loss, "{}; {}", state.status().text(),
                       aside.ok() ? "the checkpoint was set aside: the next run of the job begins "
                                    "at an earlier one"
                                  : aside.text());
  }
  if (weights_ == nullptr || !weights_->has(key.name)) {
    return compute.first(key, slice, job_->spec.train.initializer, job_->spec.seed, pool);
  }
  TROUPE_TRY_ASSIGN(base::Buffer weight, pool.allocate(slice.bytes, "weights"));
  const std::uint64_t begin = slice.offset * base::dtype_size(key.dtype);
  const base::Status read =
      weights_->read(key.name, begin, std::span(weight.data(), weight.size()));
  if (!read.ok()) return read.with_context("train.weights");
  return compute.first_from(key, std::move(weight), pool);
}

}  // namespace troupe::train
