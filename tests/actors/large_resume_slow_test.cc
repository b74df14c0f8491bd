// SPDX-License-Identifier: Apache-2.0
// A resume on 20 GB of records and a checkpoint of 2 GB, all but a little of both holes in sparse
// files: what coordinator, hosts and servers read of them, and what memory the coordinator's look
// takes. Whoever read everything would read 22 GB each time.
#include <algorithm>
#include <fstream>

#include "actors/job_actors.h"
#include "base/file.h"
#include "base/hash.h"
#include "schemas/codec.h"
#include "storage/storage.h"
#include "tests/support/catch.h"
#include "tests/support/job_files.h"

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kRecordFileBytes = 20'000'000'000;
constexpr std::uint64_t kRecords = 2'000;
constexpr std::uint32_t kShards = 4;
/// Samples of the record file, its index, manifests, headers.
constexpr std::uint64_t kLittle = 64'000'000;

/// A number of this process that the kernel keeps: "rchar:" of io, "VmHWM:" of status.
std::uint64_t own(const std::string& file, const std::string& name) {
  std::ifstream lines("/proc/self/" + file);
  std::string word;
  while (lines >> word) {
    if (word != name) continue;
    std::uint64_t value = 0;
    lines >> value;
    return value;
  }
  FAIL("no " << name << " in /proc/self/" << file);
  return 0;
}

/// Bytes that a call has read from files.
template <typename Call>
std::uint64_t bytes_read(const Call& call) {
  const std::uint64_t before = own("io", "rchar:");
  call();
  return own("io", "rchar:") - before;
}

/// Equal records, spread evenly over the file.
void write_sparse_records(const fs::path& path) {
  train::write_test_records(path, 1, 28);
  const auto record = base::read_file(path, 1'000'000).value();
  fs::resize_file(path, kRecordFileBytes);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  std::vector<data::IndexEntry> index;
  for (std::uint64_t i = 0; i < kRecords; ++i) {
    const std::uint64_t offset = i * (kRecordFileBytes / kRecords) / 4 * 4;
    file.seekp(static_cast<std::streamoff>(offset));
    file.write(reinterpret_cast<const char*>(record.data()),
               static_cast<std::streamsize>(record.size()));
    index.push_back({i, offset});
  }
  REQUIRE(data::write_index(data::index_path(path), index).ok());
}

/// 2 GB of weights and momenta in f32 over images of 28 x 28.
std::string wide_network() {
  const ops::OpTable table = ops::OpTable::build();
  symbol::Composer c(table);
  const symbol::Symbol wide =
      c.call("fully_connected", "wide", {c.variable("data")}, {{"num_hidden", "318000"}});
  const symbol::Symbol fc = c.call("fully_connected", "fc", {wide}, {{"num_hidden", "4"}});
  return c.finish(c.call("softmax_output", "softmax", {fc})).value().to_json();
}

/// A shard's file whose tensors are all zero: a header and a hole.
schemas::ShardFile write_sparse_shard(const fs::path& folder, const train::Job& job,
                                      const store::SliceLayout& layout, std::uint32_t shard) {
  std::string tensors, updates;
  std::uint64_t end = 0;
  const auto add = [&](const std::string& name, const store::SliceInfo& slice) {
    tensors += fmt::format(R"(,"{}":{{"dtype":"F32","shape":[{}],"data_offsets":[{},{}]}})", name,
                           slice.elements, end, end + slice.bytes);
    end += slice.bytes;
  };
  for (const store::SliceInfo& slice : layout.slices()) {
    if (slice.shard != shard) continue;
    const std::string name = fmt::format("{}/{}", job.keys.keys[slice.id.key].name, slice.id.slice);
    updates += fmt::format(R"({}"{}":"2")", updates.empty() ? "" : ",", name);
    add(name, slice);
    add(name + "/momentum", slice);
  }
  std::string header = fmt::format(R"({{"__metadata__":{{{}}}{}}})", updates, tensors);
  header.append((8 - header.size() % 8) % 8, ' ');
  const std::uint64_t length = header.size();
  std::string head(reinterpret_cast<const char*>(&length), sizeof length);
  head += header;
  schemas::ShardFile file;
  file.shard = shard;
  file.name = fmt::format("step-2-g1-shard-{}-of-{}.safetensors", shard, kShards);
  file.bytes = head.size() + end;
  file.chunk_bytes = store::kChecksumChunkBytes;
  std::ofstream(folder / file.name, std::ios::binary) << head;
  fs::resize_file(folder / file.name, file.bytes);
  for (std::uint64_t at = 0; at < file.bytes; at += file.chunk_bytes) {
    std::vector<std::byte> chunk(std::min(file.chunk_bytes, file.bytes - at));
    for (std::uint64_t i = at; i < std::min(at + chunk.size(), head.size()); ++i) {
      chunk[i - at] = std::byte(head[i]);
    }
    file.checksums.push_back(base::crc32c(chunk));
  }
  return file;
}

/// The job, with a checkpoint of its step 2.
class LargeJob {
 public:
  LargeJob() : folder_("large-resume") {
    write_sparse_records(folder_.path() / "train.rec");
    spec = train::test_job(folder_.path(), "");
    spec.model.symbol_json = wide_network();
    spec.data.test.clear();
    spec.servers.shards = kShards;
    const ops::OpTable table = ops::OpTable::build();
    const auto job = train::open_job(spec, table);
    INFO(job.status().to_string());
    REQUIRE(job.ok());
    layout = store::SliceLayout::create((*job)->keys.keys, kShards).value();
    const fs::path out = spec.checkpoint.dir;
    fs::create_directories(out);
    schemas::Manifest manifest = train::make_manifest(
        **job, ops::numeric_class(1), {}, train::training_start(**job, 0).value(), 2, {"momentum"});
    for (std::uint32_t shard = 0; shard < kShards; ++shard) {
      manifest.files.push_back(write_sparse_shard(out, **job, *layout, shard));
      checkpoint_bytes += manifest.files.back().bytes;
    }
    REQUIRE(store::write_manifest(out, manifest).ok());
  }

  schemas::JobSpec spec;
  std::optional<store::SliceLayout> layout;
  std::uint64_t checkpoint_bytes = 0;

 private:
  TestFolder folder_;
};

TEST_CASE("a resume reads manifests, samples of the records, and each slice once", "[resume]") {
  const LargeJob large;
  REQUIRE(large.checkpoint_bytes > 1'990'000'000);

  // The coordinator.
  std::ofstream("/proc/self/clear_refs") << "5";  // the high water mark begins anew
  const std::uint64_t memory_before = own("status", "VmHWM:");
  control::StartFound found;
  CHECK(bytes_read([&] { found = train::find_job_start({"job", 1, large.spec}, {}); }) < kLittle);
  INFO(found.status.to_string());
  REQUIRE(found.status.ok());
  CHECK(found.step == 2);
  CHECK(own("status", "VmHWM:") - memory_before < 64'000);  // kB

  // A host process and the servers, up to where they are ready.
  for (std::uint32_t i = 0; i <= kShards; ++i) {
    schemas::LaunchProcess launch;
    launch.job = "job";
    launch.generation = found.generation;
    launch.checkpoint = found.checkpoint;
    launch.actor = {i == kShards ? schemas::Role::device_server : schemas::Role::parameter_server,
                    i % kShards};
    if (i == kShards) launch.ranks = {0};
    launch.job_text = schemas::encode_job_spec(large.spec).value();
    base::SteadyClock clock;
    monitoring::Metrics metrics;
    base::Status opened;
    CHECK(bytes_read([&] { opened = JobActors::open(launch, {}, clock, metrics).status(); }) <
          kLittle);
    INFO(opened.to_string());
    CHECK(opened.ok());
  }

  // A server's first values: its own part of the checkpoint.
  const ops::OpTable table = ops::OpTable::build();
  const auto job = train::open_job(large.spec, table).value();
  schemas::LaunchProcess launch;
  launch.actor = {schemas::Role::parameter_server, 1};
  launch.checkpoint = found.checkpoint;
  const ServerJob server = open_server_job(job, table, launch).value();
  storage::Storage storage;
  base::BufferPool& pool = storage.pool(base::Device{});
  std::uint64_t own_bytes = 0;
  const std::uint64_t read = bytes_read([&] {
    for (const store::SliceInfo& slice : large.layout->slices()) {
      if (slice.shard != 1) continue;
      const auto state =
          (*server.first)(job->keys.keys[slice.id.key], slice, *server.compute, pool);
      REQUIRE(state.ok());
      CHECK(state->updates == 2);
      own_bytes += 2 * slice.bytes;
    }
  });
  CHECK(own_bytes > large.checkpoint_bytes / 5);
  CHECK(read >= own_bytes);
  CHECK(read < own_bytes + kLittle);
}

}  // namespace
}  // namespace troupe::actors
