// SPDX-License-Identifier: Apache-2.0
// Troupe as a library, from data to saved weights: trains LeNet in this process, scores it,
// predicts a few images. First pack the data, then run:
//   troupe data pack fashion-mnist --out data/fashion
//   train_lenet data/fashion 2          (folder of train.rec and test.rec; epochs)
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <troupe/ndarray/safetensors.h>
#include <troupe/store/local_store.h>
#include <troupe/store/schedule.h>
#include <troupe/train/job.h>
#include <troupe/train/module.h>

using namespace troupe;

/// What everything runs on. Nothing is global, so a program may have several of these. Members are
/// destroyed from the last to the first: the engine ends before the things its operations use.
struct Setup {
  base::SteadyClock clock;
  storage::Storage storage;                              // memory, recycled
  const ops::OpTable operators = ops::OpTable::build();  // every operator of this build
  ndarray::PreparedKernels kernels;                      // made once per kind of call
  const std::unique_ptr<engine::Engine> engine = engine::make_threaded_engine({}, clock);
  ndarray::Runtime runtime{*engine, storage, operators, kernels, clock};
  base::BufferPool& pool = storage.pool(base::Device{});
};

/// What a job file says, as a struct: see docs/job-file.md. What is not named keeps its default.
/// This program obeys the seed and [model], [data] but for prefetching and test_batch, and epochs,
/// max_steps, optimizer, schedule, initializer and keys of [train]; data.test must be there. The
/// rest is of `troupe run`: weights to begin with, checkpoints, workers, numerics, memory.
schemas::JobSpec describe_job(const std::string& folder, std::uint32_t epochs) {
  schemas::JobSpec spec;
  spec.seed = 7;  // the order of the records and the first weights follow from it
  spec.model.network = "lenet";
  spec.data.train = folder + "/train.rec";
  spec.data.test = folder + "/test.rec";
  spec.data.mean = {0.286F};
  spec.data.std = {0.353F};
  spec.train.epochs = epochs;
  spec.train.optimizer = {.name = "sgd", .lr = 0.05, .momentum = 0.9, .wd = 1e-4};
  return spec;
}

/// Prints the most probable class of a few test images. Troupe does not throw: a call that can fail
/// gives a Status or a Result, and TROUPE_TRY passes an error on to the caller.
base::Status predict_some(Setup& setup, train::Module& module, data::BatchIterator& batches) {
  batches.seek(0);
  TROUPE_TRY_ASSIGN(const auto batch, batches.next(train::kBatchDeadline));
  if (!batch) return {};  // the set is empty
  const auto count = std::min<std::int64_t>(5, static_cast<std::int64_t>(batch->count()));
  // Arrays are lazy: calls return at once, and reading waits for the operations before.
  const auto images = ndarray::NDArray::from_buffer(
      setup.runtime, batch->images, {count, 1, 28, 28}, base::DType::f32, /*shared=*/true);
  TROUPE_TRY_ASSIGN(const auto outputs, module.predict(images));
  TROUPE_TRY_ASSIGN(const auto rows, outputs.front().to_vector<float>());  // (count, classes)
  const auto labels = batch->labels.as<float>();
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    const auto row = rows.begin() + 10 * i;
    const auto best = std::max_element(row, row + 10);
    std::printf("image %td: class %td with probability %.2f, label %.0f\n", i, best - row, *best,
                labels.data()[i]);
  }
  return {};
}

base::Status train_lenet(const std::string& folder, std::uint32_t epochs) {
  // Data and network. LeNet is built in; symbol::Composer composes networks of your own.
  Setup setup;
  TROUPE_TRY_ASSIGN(const auto job, train::open_job(describe_job(folder, epochs), setup.operators));
  // Batches in the order of a plan, decoded ahead of time by a thread of their own.
  const auto open = [&](auto dataset, std::shared_ptr<const data::BatchPlan> plan,
                        const data::SampleOptions& samples) {
    return data::BatchIterator::create({dataset, plan, &setup.pool, &setup.clock}, samples, {});
  };
  TROUPE_TRY_ASSIGN(
      const auto training,
      open(job->train_data, data::make_training_plan(job->orders, 0, job->steps_end()),
           job->training_samples()));  // moved and mirrored, where the job says so
  TROUPE_TRY_ASSIGN(
      const auto test,
      open(job->test_data, data::make_evaluation_plan({job->test_data->records(), 1, 32}, 0),
           job->samples));

  // A module is a network bound to a device: shapes are inferred, memory is planned.
  TROUPE_TRY_ASSIGN(const auto module, train::Module::create(setup.runtime, job->network,
                                                             {.inputs = job->keys.inputs,
                                                              .keys = job->spec.train.keys,
                                                              .seed = job->spec.seed}));
  TROUPE_TRY(module->init_params(job->spec.train.initializer));

  // A store takes gradients and gives weights. The local one serves one process: here rank 0 alone.
  const auto steps = store::make_step_plan(job->spec, job->train_data->records(), 0);
  const store::LocalStoreParts parts{setup.operators, setup.pool, setup.kernels};
  TROUPE_TRY_ASSIGN(const auto local, store::LocalStore::create(
                                          parts, {.batch = job->spec.data.batch, .steps = steps}));
  const auto store = local->rank_store(0, setup.runtime);

  // The training loop, with a word after each epoch.
  train::FitOptions fit{.rule = job->rule(), .steps = steps, .evaluation = test.get()};
  fit.epoch_end = [](const train::EpochEnd& end) {
    std::printf("epoch %d: accuracy %.4f\n", static_cast<int>(end.epochs),
                end.evaluation->at("accuracy").mean());
    return base::Status();
  };
  TROUPE_TRY(module->fit(*training, *store, fit));
  TROUPE_TRY_ASSIGN(const auto score, module->score(*test));
  std::printf("cross entropy on the test set %.4f\n", score.at("cross_entropy").mean());
  TROUPE_TRY(predict_some(setup, *module, *test));

  // The weights, as a safetensors file; `train.weights` of a job file takes it. To predict with
  // weights of a file, make a module as above, give it ndarray::load_arrays(setup.runtime, file) by
  // module->init_params(...), and call module->predict(...).
  std::map<std::string, ndarray::NDArray> weights;
  std::uint32_t key = 0;
  for (const auto& info : module->keys()) weights[info.name] = module->parameter(key++);
  return ndarray::save_arrays(folder + "/lenet.safetensors", weights);
}

int main(int count, char** words) {
  const unsigned long epochs = count == 3 ? std::strtoul(words[2], nullptr, 10) : 0;
  if (epochs < 1) return std::fputs("usage: train_lenet FOLDER EPOCHS\n", stderr), 2;
  const base::Status status = train_lenet(words[1], static_cast<std::uint32_t>(epochs));
  if (!status.ok()) std::fprintf(stderr, "train_lenet: %s\n", status.to_string().c_str());
  return status.ok() ? 0 : 1;
}
