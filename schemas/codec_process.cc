// SPDX-License-Identifier: Apache-2.0
// Codecs of the messages between a job's processes and the coordinator.
#include "schemas/codec_internal.h"

namespace troupe::schemas {

void put(wire::DatasetReport::Builder out, const DatasetReport& m) {
  const auto& [rank, train, test] = m;
  out.setRank(rank);
  out.setFile(text_of(train.file));
  out.setRecords(train.records);
  out.setBytes(train.bytes);
  out.setChecksum(train.checksum);
  out.setTestFile(text_of(test.file));
  out.setTestRecords(test.records);
  out.setTestBytes(test.bytes);
  out.setTestChecksum(test.checksum);
}

void get(wire::DatasetReport::Reader in, DatasetReport& out, Intake& intake) {
  out.rank = in.getRank();
  out.train = {"", in.getRecords(), in.getBytes(), in.getChecksum()};
  intake.name(in.getFile(), "file", out.train.file);
  out.test = {"", in.getTestRecords(), in.getTestBytes(), in.getTestChecksum()};
  intake.name(in.getTestFile(), "test file", out.test.file);
}

void put(wire::TrainingStart::Builder out, const TrainingStart& m) {
  const auto& [step, records, bytes, checksum] = m;
  out.setStep(step);
  out.setRecords(records);
  out.setBytes(bytes);
  out.setChecksum(checksum);
}

void get(wire::TrainingStart::Reader in, TrainingStart& out, Intake&) {
  out = {in.getStep(), in.getRecords(), in.getBytes(), in.getChecksum()};
}

void put(wire::ProgressReport::Builder out, const ProgressReport& m) {
  const auto& [rank, step, samples, metrics] = m;
  out.setRank(rank);
  out.setStep(step);
  out.setSamples(samples);
  auto list = out.initMetrics(size_of(metrics));
  unsigned i = 0;
  for (const auto& [name, sums] : metrics) {
    list[i].setName(text_of(name));
    list[i].setSum(sums.sum);
    list[i].setWeight(sums.weight);
    ++i;
  }
}

void get(wire::ProgressReport::Reader in, ProgressReport& out, Intake& intake) {
  out.rank = in.getRank();
  out.step = in.getStep();
  out.samples = in.getSamples();
  const auto list = in.getMetrics();
  if (!intake.fits(list.size(), kMetricsMax, "metrics")) return;
  for (const auto each : list) {
    std::string name;
    intake.name(each.getName(), "metric", name);
    if (!out.metrics.empty() && name <= out.metrics.rbegin()->first) {
      return intake.fail("metrics", "are not in strictly ascending order of name");
    }
    out.metrics.emplace_hint(out.metrics.end(), std::move(name),
                             MetricPair{each.getSum(), each.getWeight()});
  }
}

void put(wire::EvaluationReport::Builder out, const EvaluationReport& m) {
  const auto& [rank, epoch, step, samples, correct, loss_sum] = m;
  out.setRank(rank);
  out.setEpoch(epoch);
  out.setStep(step);
  out.setSamples(samples);
  out.setCorrect(correct);
  out.setLossSum(loss_sum);
}

void get(wire::EvaluationReport::Reader in, EvaluationReport& out, Intake& intake) {
  out.rank = in.getRank();
  out.epoch = in.getEpoch();
  out.step = in.getStep();
  out.samples = in.getSamples();
  out.correct = in.getCorrect();
  out.loss_sum = in.getLossSum();
  if (out.correct > out.samples) {
    intake.fail("correct", fmt::format("is {} of {} samples", out.correct, out.samples));
  }
}

void put(wire::CheckpointReport::Builder out, const CheckpointReport& m) {
  const auto& [step, path, code, text] = m;
  out.setStep(step);
  out.setPath(text_of(path));
  out.setCode(code_of(code));
  out.setText(text_of(sentence(text)));
}

void get(wire::CheckpointReport::Reader in, CheckpointReport& out, Intake& intake) {
  out.step = in.getStep();
  intake.name(in.getPath(), "path", out.path);
  intake.code(in.getCode(), out.code);
  intake.text(in.getText(), kTextBytesMax, "text", out.text);
}

void put(wire::ActorDone::Builder out, const ActorDone& m) {
  const auto& [actor, steps] = m;
  put(out.initActor(), actor);
  out.setSteps(steps);
}

void get(wire::ActorDone::Reader in, ActorDone& out, Intake& intake) {
  get(in.getActor(), out.actor, intake);
  out.steps = in.getSteps();
}

void put(wire::ServerReport::Builder out, const ServerReport& m) {
  const auto& [shard, applied_below] = m;
  out.setShard(shard);
  out.setAppliedBelow(applied_below);
}

void get(wire::ServerReport::Reader in, ServerReport& out, Intake&) {
  out.shard = in.getShard();
  out.applied_below = in.getAppliedBelow();
}

void put(wire::ActorFailed::Builder out, const ActorFailed& m) {
  const auto& [actor, code, text, lost] = m;
  put(out.initActor(), actor);
  out.setCode(code_of(code));
  out.setText(text_of(sentence(text)));
  if (lost) put(out.initLost(), *lost);
}

void get(wire::ActorFailed::Reader in, ActorFailed& out, Intake& intake) {
  get(in.getActor(), out.actor, intake);
  intake.code(in.getCode(), out.code);
  intake.text(in.getText(), kTextBytesMax, "text", out.text);
  if (in.hasLost()) get(in.getLost(), out.lost.emplace(), intake);
}

void put(wire::JobEnd::Builder out, const JobEnd& m) {
  const auto& [code, text] = m;
  out.setCode(code_of(code));
  out.setText(text_of(sentence(text)));
}

void get(wire::JobEnd::Reader in, JobEnd& out, Intake& intake) {
  intake.code(in.getCode(), out.code);
  intake.text(in.getText(), kTextBytesMax, "text", out.text);
}

void put(wire::Placement::Builder out, const Placement& m) {
  const auto& [view, generation, start_step, machine_of_rank, machine_of_shard, machines,
               shard_addresses, gpu_of_rank] = m;
  out.setView(view);
  out.setGeneration(generation);
  out.setStartStep(start_step);
  put_numbers(out.initMachineOfRank(size_of(machine_of_rank)), machine_of_rank);
  put_numbers(out.initMachineOfShard(size_of(machine_of_shard)), machine_of_shard);
  put_names(out.initMachines(size_of(machines)), machines);
  put_names(out.initShardAddresses(size_of(shard_addresses)), shard_addresses);
  put_numbers(out.initGpuOfRank(size_of(gpu_of_rank)), gpu_of_rank);
}

void get(wire::Placement::Reader in, Placement& out, Intake& intake) {
  out.view = in.getView();
  out.generation = in.getGeneration();
  out.start_step = in.getStartStep();
  intake.numbers(in.getMachineOfRank(), kRanksMax, "machine_of_rank", out.machine_of_rank);
  intake.numbers(in.getMachineOfShard(), kRanksMax, "machine_of_shard", out.machine_of_shard);
  intake.names(in.getMachines(), kRanksMax, "machines", out.machines);
  intake.names(in.getShardAddresses(), kRanksMax, "shard_addresses", out.shard_addresses);
  intake.gpus(in.getGpuOfRank(), out.machine_of_rank.size(), "gpu_of_rank", out.gpu_of_rank);
  for (const auto* places : {&out.machine_of_rank, &out.machine_of_shard}) {
    for (const std::uint32_t machine : *places) {
      if (machine >= out.machines.size()) {
        return intake.fail("placement",
                           fmt::format("names machine {} of {}", machine, out.machines.size()));
      }
    }
  }
  const std::size_t addresses = out.shard_addresses.size();
  if (addresses != 0 && addresses != out.machine_of_shard.size()) {
    intake.fail("shard_addresses", fmt::format("has {} entries for {} shards", addresses,
                                               out.machine_of_shard.size()));
  }
}

void put(wire::ProcessReady::Builder out, const ProcessReady& m) {
  const auto& [actor, pid, address, http_address, numeric_class] = m;
  put(out.initActor(), actor);
  out.setPid(pid);
  out.setAddress(text_of(address));
  out.setHttpAddress(text_of(http_address));
  put(out.initNumericClass(), numeric_class);
}

void get(wire::ProcessReady::Reader in, ProcessReady& out, Intake& intake) {
  get(in.getActor(), out.actor, intake);
  out.pid = in.getPid();
  intake.name(in.getAddress(), "address", out.address);
  intake.name(in.getHttpAddress(), "http_address", out.http_address);
  get(in.getNumericClass(), out.numeric_class, intake);
}

}  // namespace troupe::schemas
