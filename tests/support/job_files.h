// SPDX-License-Identifier: Apache-2.0
// Small record files and job specifications for tests of training: learnable images of random
// classes.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/random.h"
#include "data/image_record.h"
#include "data/index.h"
#include "data/record_file.h"
#include "schemas/job_spec.h"
#include "tests/support/catch.h"
#include "tests/support/test_folder.h"

namespace troupe::train {

/// Writes `records` grey images of side x side with labels 0-3 to `path` and its index beside it.
void write_test_records(const std::filesystem::path& path, std::uint64_t records, int side);

/// A job over train.rec (and test.rec) in `folder`: 2 machines x 2 devices, sequential, 2 epochs.
schemas::JobSpec test_job(const std::filesystem::path& folder, const std::string& network);

inline void write_test_records(const std::filesystem::path& path, std::uint64_t records, int side) {
  data::RecordWriter writer(path);
  REQUIRE(writer.open().ok());
  std::vector<data::IndexEntry> index;
  const base::RandomKey key = base::random_key(1, path.filename().string());
  const auto edge = static_cast<std::uint32_t>(side);
  for (std::uint64_t i = 0; i < records; ++i) {
    const std::uint32_t label = base::philox(key, i, 0, 0)[0] % 4;
    std::vector<std::uint8_t> pixels;
    for (std::uint32_t y = 0; y < edge; ++y) {
      for (std::uint32_t x = 0; x < edge; ++x) {
        const std::uint32_t quarter = 2 * (y >= edge / 2) + (x >= edge / 2);
        const std::uint32_t noise = base::philox(key, i, 1, y * edge + x)[0] % 96;
        pixels.push_back(static_cast<std::uint8_t>(noise + (quarter == label ? 128 : 0)));
      }
    }
    std::vector<std::byte> record;
    const std::vector<float> labels = {static_cast<float>(label)};
    data::encode_raw_record(labels, i, {1, edge, edge}, pixels, record);
    const auto offset = writer.append(record);
    REQUIRE(offset.ok());
    index.push_back({i, *offset});
  }
  REQUIRE(writer.commit().ok());
  REQUIRE(data::write_index(data::index_path(path), index).ok());
}

inline schemas::JobSpec test_job(const std::filesystem::path& folder, const std::string& network) {
  schemas::JobSpec job;
  job.name = "test";
  job.seed = 7;
  job.model.network = network;
  job.model.classes = 4;
  job.data.train = folder / "train.rec";
  job.data.test = folder / "test.rec";
  job.data.mean = {0.3F};
  job.data.std = {0.3F};
  job.data.batch = 8;
  job.train.epochs = 2;
  job.train.optimizer.lr = 0.05;
  job.train.optimizer.momentum = 0.9;
  job.train.optimizer.wd = 1e-4;
  job.train.schedule.kind = schemas::ScheduleKind::cosine;
  job.train.log_every = {3, schemas::Period::Unit::steps};
  job.workers.machines = 2;
  job.workers.devices = 2;
  job.checkpoint.dir = folder / "out";
  job.checkpoint.every = {4, schemas::Period::Unit::steps};
  job.limits.stall_ms = 60'000;
  return job;
}

}  // namespace troupe::train
