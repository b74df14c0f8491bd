// SPDX-License-Identifier: Apache-2.0
// Codecs of job specs and manifests.
#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

#include "schemas/codec_internal.h"

namespace troupe::schemas {
namespace {

void put(wire::Period::Builder out, const Period& m) {
  const auto& [count, unit] = m;
  out.setCount(count);
  out.setUnit(choice_of<wire::Period::Unit>(unit));
}

void get(wire::Period::Reader in, Period& out, Intake& intake) {
  out.count = in.getCount();
  intake.choice(in.getUnit(), Period::Unit::epochs, "period", out.unit);
}

void put(wire::ModelSpec::Builder out, const ModelSpec& m) {
  const auto& [network, symbol, symbol_json, classes, input, dropout, bias] = m;
  out.setNetwork(text_of(network));
  out.setSymbol(text_of(symbol));
  out.setSymbolJson(text_of(symbol_json));
  out.setClasses(classes);
  put_numbers(out.initInput(size_of(input)), input);
  if (dropout) out.initDropout().setValue(*dropout);
  if (bias) out.initBias().setValue(*bias ? 1 : 0);
}

void get(wire::ModelSpec::Reader in, ModelSpec& out, Intake& intake) {
  intake.name(in.getNetwork(), "network", out.network);
  intake.name(in.getSymbol(), "symbol", out.symbol);
  intake.text(in.getSymbolJson(), kModelBytesMax, "symbol_json", out.symbol_json);
  out.classes = in.getClasses();
  intake.numbers(in.getInput(), base::kRankMax, "input", out.input);
  if (in.hasDropout()) intake.finite(in.getDropout().getValue(), "dropout", out.dropout.emplace());
  if (in.hasBias()) out.bias = in.getBias().getValue() != 0;
}

void get_channels(capnp::List<float>::Reader in, std::string_view field, std::vector<float>& out,
                  Intake& intake) {
  intake.numbers(in, kChannelsMax, field, out);
  const auto finite = [](float value) { return std::isfinite(value); };
  if (!std::all_of(out.begin(), out.end(), finite)) intake.fail(field, "is not finite");
}

void put(wire::DataSpec::Builder out, const DataSpec& m) {
  const auto& [train, test, mean, std, batch, test_batch, prefetch_threads, prefetch_batches,
               on_bad_record, augment] = m;
  out.setTrain(text_of(train));
  out.setTest(text_of(test));
  put_numbers(out.initMean(size_of(mean)), mean);
  put_numbers(out.initStd(size_of(std)), std);
  out.setBatch(batch);
  out.setTestBatch(test_batch);
  out.setPrefetchThreads(prefetch_threads);
  out.setPrefetchBatches(prefetch_batches);
  out.setOnBadRecord(choice_of<wire::BadRecord>(on_bad_record));
  const auto& [crop_padding, mirror] = augment;
  out.initAugment().setCropPadding(crop_padding);
  out.getAugment().setMirror(mirror);
}

void get(wire::DataSpec::Reader in, DataSpec& out, Intake& intake) {
  intake.name(in.getTrain(), "train", out.train);
  intake.name(in.getTest(), "test", out.test);
  get_channels(in.getMean(), "mean", out.mean, intake);
  get_channels(in.getStd(), "std", out.std, intake);
  out.batch = in.getBatch();
  out.test_batch = in.getTestBatch();
  out.prefetch_threads = in.getPrefetchThreads();
  out.prefetch_batches = in.getPrefetchBatches();
  intake.choice(in.getOnBadRecord(), BadRecord::skip, "on_bad_record", out.on_bad_record);
  out.augment = {in.getAugment().getCropPadding(), in.getAugment().getMirror()};
}

void put(wire::InitializerSpec::Builder out, const InitializerSpec& m) {
  const auto& [kind, scale, fan, distribution] = m;
  out.setKind(choice_of<wire::InitializerKind>(kind));
  if (scale) out.initScale().setValue(*scale);
  out.setFan(choice_of<wire::FanKind>(fan));
  out.setDistribution(choice_of<wire::Distribution>(distribution));
}

void get(wire::InitializerSpec::Reader in, InitializerSpec& out, Intake& intake) {
  intake.choice(in.getKind(), InitializerKind::constant, "initializer", out.kind);
  if (in.hasScale()) intake.finite(in.getScale().getValue(), "scale", out.scale.emplace());
  intake.choice(in.getFan(), FanKind::out, "fan", out.fan);
  intake.choice(in.getDistribution(), Distribution::normal, "distribution", out.distribution);
}

}  // namespace

void put(wire::KeyRule::Builder out, const KeyRule& m) {
  const auto& [match, lr_mult, wd_mult] = m;
  out.setMatch(text_of(match));
  if (lr_mult) out.initLrMult().setValue(*lr_mult);
  if (wd_mult) out.initWdMult().setValue(*wd_mult);
}

void get(wire::KeyRule::Reader in, KeyRule& out, Intake& intake) {
  intake.name(in.getMatch(), "match", out.match);
  if (in.hasLrMult()) intake.finite(in.getLrMult().getValue(), "lr_mult", out.lr_mult.emplace());
  if (in.hasWdMult()) intake.finite(in.getWdMult().getValue(), "wd_mult", out.wd_mult.emplace());
}

namespace {

void put(wire::TrainSpec::Builder out, const TrainSpec& m) {
  const auto& [epochs, max_steps, optimizer, schedule, initializer, weights, log_every, score_every,
               hold, non_finite, keys] = m;
  out.setEpochs(epochs);
  if (max_steps) out.initMaxSteps().setValue(*max_steps);
  put(out.initOptimizer(), optimizer);
  put(out.initSchedule(), schedule);
  put(out.initInitializer(), initializer);
  out.setWeights(text_of(weights));
  put(out.initLogEvery(), log_every);
  put(out.initScoreEvery(), score_every);
  out.setHold(choice_of<wire::Hold>(hold));
  out.setNonFinite(choice_of<wire::NonFinite>(non_finite));
  put_structs(out.initKeys(size_of(keys)), keys);
}

void get(wire::TrainSpec::Reader in, TrainSpec& out, Intake& intake) {
  out.epochs = in.getEpochs();
  if (in.hasMaxSteps()) out.max_steps = in.getMaxSteps().getValue();
  get(in.getOptimizer(), out.optimizer, intake);
  get(in.getSchedule(), out.schedule, intake);
  get(in.getInitializer(), out.initializer, intake);
  intake.name(in.getWeights(), "weights", out.weights);
  get(in.getLogEvery(), out.log_every, intake);
  get(in.getScoreEvery(), out.score_every, intake);
  intake.choice(in.getHold(), Hold::until_scraped, "hold", out.hold);
  intake.choice(in.getNonFinite(), NonFinite::ignore, "non_finite", out.non_finite);
  intake.structs(in.getKeys(), kKeyRulesMax, "keys", out.keys);
}

void put(wire::WorkersSpec::Builder out, const WorkersSpec& m) {
  const auto& [machines, devices, threads, device, memory, gpu_graphs, gpu_sums] = m;
  out.setMachines(machines);
  out.setDevices(devices);
  out.setThreads(threads);
  out.setDevice(choice_of<wire::WorkerDevice>(device));
  out.setMemory(memory);
  out.setGpuGraphs(gpu_graphs);
  out.setGpuSums(gpu_sums);
}

void get(wire::WorkersSpec::Reader in, WorkersSpec& out, Intake& intake) {
  out.machines = in.getMachines();
  out.devices = in.getDevices();
  out.threads = in.getThreads();
  intake.choice(in.getDevice(), WorkerDevice::gpu, "workers.device", out.device);
  out.memory = in.getMemory();
  out.gpu_graphs = in.getGpuGraphs();
  out.gpu_sums = in.getGpuSums();
}

void put(wire::TierSpec::Builder out, const TierSpec& m) {
  const auto& [mode, max_staleness] = m;
  out.setMode(choice_of<wire::ConsistencyMode>(mode));
  if (max_staleness) out.initMaxStaleness().setValue(*max_staleness);
}

void get(wire::TierSpec::Reader in, TierSpec& out, Intake& intake) {
  intake.choice(in.getMode(), ConsistencyMode::eventual, "mode", out.mode);
  if (!in.hasMaxStaleness()) return;
  const std::uint64_t steps = in.getMaxStaleness().getValue();
  if (!intake.fits(steps, std::numeric_limits<std::uint32_t>::max(), "max_staleness")) return;
  out.max_staleness = static_cast<std::uint32_t>(steps);
}

void put(wire::CheckpointSpec::Builder out, const CheckpointSpec& m) {
  const auto& [dir, every, keep, resume, change_numerics] = m;
  out.setDir(text_of(dir));
  put(out.initEvery(), every);
  out.setKeep(keep);
  out.setResume(resume);
  out.setChangeNumerics(change_numerics);
}

void get(wire::CheckpointSpec::Reader in, CheckpointSpec& out, Intake& intake) {
  intake.name(in.getDir(), "dir", out.dir);
  get(in.getEvery(), out.every, intake);
  out.keep = in.getKeep();
  out.resume = in.getResume();
  out.change_numerics = in.getChangeNumerics();
}

void put(wire::NumericsSpec::Builder out, const NumericsSpec& m) {
  const auto& [isa, layout, reference_only, dtype, winograd, tf32, kernels, kernels_json,
               gradient_wire, weight_wire, loss_scale, loss_scale_steps] = m;
  out.setIsa(choice_of<wire::Isa>(isa));
  out.setLayout(choice_of<wire::LayoutChoice>(layout));
  out.setReferenceOnly(reference_only);
  out.setDtype(choice_of<wire::DType>(dtype));
  out.setWinograd(winograd);
  out.setTf32(tf32);
  out.setKernels(text_of(kernels));
  out.setKernelsJson(text_of(kernels_json));
  out.setGradientWire(choice_of<wire::WireType>(gradient_wire));
  out.setWeightWire(choice_of<wire::WireType>(weight_wire));
  out.setLossScale(loss_scale);
  out.setLossScaleSteps(loss_scale_steps);
}

void get(wire::NumericsSpec::Reader in, NumericsSpec& out, Intake& intake) {
  intake.choice(in.getIsa(), Isa::avx512, "isa", out.isa);
  intake.choice(in.getLayout(), LayoutChoice::dense, "layout", out.layout);
  out.reference_only = in.getReferenceOnly();
  intake.choice(in.getDtype(), base::DType::boolean, "dtype", out.dtype);
  out.winograd = in.getWinograd();
  out.tf32 = in.getTf32();
  intake.name(in.getKernels(), "kernels", out.kernels);
  intake.text(in.getKernelsJson(), kKernelsBytesMax, "kernels_json", out.kernels_json);
  intake.choice(in.getGradientWire(), WireType::f16, "gradient_wire", out.gradient_wire);
  intake.choice(in.getWeightWire(), WireType::f16, "weight_wire", out.weight_wire);
  intake.finite(in.getLossScale(), "loss_scale", out.loss_scale);
  out.loss_scale_steps = in.getLossScaleSteps();
}

void put(wire::MemorySpec::Builder out, const MemorySpec& m) {
  const auto& [recompute, budget, sub_batch, device_limit] = m;
  out.setRecompute(choice_of<wire::Recompute>(recompute));
  out.setBudget(budget);
  out.setSubBatch(sub_batch);
  out.setDeviceLimit(device_limit);
}

void get(wire::MemorySpec::Reader in, MemorySpec& out, Intake& intake) {
  intake.choice(in.getRecompute(), Recompute::automatic, "recompute", out.recompute);
  out.budget = in.getBudget();
  out.sub_batch = in.getSubBatch();
  out.device_limit = in.getDeviceLimit();
}

void put_limits(wire::JobSpec::Builder out, const base::Limits& limits) {
  const auto table = base::limit_table();
  auto list = out.initLimits(size_of(table));
  for (unsigned i = 0; i < list.size(); ++i) {
    list[i].setName(capnp::Text::Reader(table[i].name.data(), table[i].name.size()));
    list[i].setValue(limits.*table[i].member);
  }
}

void get_limits(capnp::List<wire::LimitValue>::Reader in, base::Limits& out, Intake& intake) {
  if (!intake.fits(in.size(), kLimitsMax, "limits")) return;
  for (const auto each : in) {
    std::string name;
    intake.name(each.getName(), "limit", name);
    const auto table = base::limit_table();
    const auto row = std::find_if(table.begin(), table.end(),
                                  [&](const base::LimitInfo& info) { return info.name == name; });
    if (row == table.end()) return intake.fail("limits", fmt::format("name no limit: '{}'", name));
    if (!row->allows(each.getValue())) {
      return intake.fail(
          name, fmt::format("is {}, not {} to {}", each.getValue(), row->least, row->most));
    }
    out.*row->member = each.getValue();
  }
}

void put(wire::ShardFile::Builder out, const ShardFile& m) {
  const auto& [shard, name, bytes, chunk_bytes, checksums] = m;
  out.setShard(shard);
  out.setName(text_of(name));
  out.setBytes(bytes);
  out.setChunkBytes(chunk_bytes);
  put_numbers(out.initChecksums(size_of(checksums)), checksums);
}

void get(wire::ShardFile::Reader in, ShardFile& out, Intake& intake) {
  out.shard = in.getShard();
  intake.name(in.getName(), "name", out.name);
  out.bytes = in.getBytes();
  out.chunk_bytes = in.getChunkBytes();
  intake.numbers(in.getChecksums(), kChecksumsMax, "checksums", out.checksums);
  // A name with a folder could point outside the checkpoint.
  if (out.name.empty() || out.name.find('/') != std::string::npos || out.name == "..") {
    intake.fail("name", fmt::format("'{}' is no file name", out.name));
  }
  const bool chunked = out.chunk_bytes != 0 || out.bytes == 0;
  if (!chunked) return intake.fail("chunk_bytes", "is 0");
  const std::uint64_t chunks = out.bytes == 0 ? 0 : (out.bytes - 1) / out.chunk_bytes + 1;
  if (chunks != out.checksums.size()) {
    intake.fail("checksums",
                fmt::format("has {} entries for {} chunks", out.checksums.size(), chunks));
  }
}

void put(wire::DataCursor::Builder out, const DataCursor& m) {
  const auto& [epoch, step_in_epoch, records, bytes, checksum] = m;
  out.setEpoch(epoch);
  out.setStepInEpoch(step_in_epoch);
  out.setRecords(records);
  out.setBytes(bytes);
  out.setChecksum(checksum);
}

void get(wire::DataCursor::Reader in, DataCursor& out, Intake&) {
  out = {in.getEpoch(), in.getStepInEpoch(), in.getRecords(), in.getBytes(), in.getChecksum()};
}

/// Extents of a complete shape that passes base::check_shape.
void get_shape(capnp::List<std::int64_t>::Reader in, base::Shape& out, Intake& intake) {
  std::vector<std::int64_t> dims;
  intake.numbers(in, base::kRankMax, "shape", dims);
  for (const std::int64_t extent : dims) {
    if (extent < 0) return intake.fail("shape", fmt::format("has the extent {}", extent));
  }
  out = base::Shape(dims);
  if (const base::Status fits = base::check_shape(out); !fits.ok()) {
    intake.fail("shape", "is too large: " + fits.text());
  }
}

}  // namespace

void put(wire::OptimizerSpec::Builder out, const OptimizerSpec& m) {
  const auto& [name, lr, momentum, wd, clip_gradient, clip_norm, symbol, symbol_json, decay] = m;
  out.setName(text_of(name));
  out.setLr(lr);
  out.setMomentum(momentum);
  out.setWd(wd);
  out.setClipGradient(clip_gradient);
  out.setClipNorm(clip_norm);
  out.setSymbol(text_of(symbol));
  out.setSymbolJson(text_of(symbol_json));
  out.setDecay(choice_of<wire::Decay>(decay));
}

void get(wire::OptimizerSpec::Reader in, OptimizerSpec& out, Intake& intake) {
  intake.name(in.getName(), "optimizer", out.name);
  intake.finite(in.getLr(), "lr", out.lr);
  intake.finite(in.getMomentum(), "momentum", out.momentum);
  intake.finite(in.getWd(), "wd", out.wd);
  intake.finite(in.getClipGradient(), "clip_gradient", out.clip_gradient);
  intake.finite(in.getClipNorm(), "clip_norm", out.clip_norm);
  intake.name(in.getSymbol(), "symbol", out.symbol);
  intake.text(in.getSymbolJson(), kModelBytesMax, "symbol_json", out.symbol_json);
  intake.choice(in.getDecay(), Decay::weights, "decay", out.decay);
}

void put(wire::ScheduleSpec::Builder out, const ScheduleSpec& m) {
  const auto& [kind, warmup, warmup_lr, final_lr] = m;
  out.setKind(choice_of<wire::ScheduleKind>(kind));
  put(out.initWarmup(), warmup);
  out.setWarmupLr(warmup_lr);
  out.setFinalLr(final_lr);
}

void get(wire::ScheduleSpec::Reader in, ScheduleSpec& out, Intake& intake) {
  intake.choice(in.getKind(), ScheduleKind::cosine, "schedule", out.kind);
  get(in.getWarmup(), out.warmup, intake);
  intake.finite(in.getWarmupLr(), "warmup_lr", out.warmup_lr);
  intake.finite(in.getFinalLr(), "final_lr", out.final_lr);
}

void put(wire::KeyInfo::Builder out, const KeyInfo& m) {
  const auto& [id, name, shape, kind, dtype, gradient_wire, weight_wire, momentum, initializer,
               lr_mult, wd_mult] = m;
  out.setId(id);
  out.setName(text_of(name));
  auto dims = out.initShape(static_cast<unsigned>(shape.rank()));
  for (int axis = 0; axis < shape.rank(); ++axis) {
    dims.set(static_cast<unsigned>(axis), shape[axis]);
  }
  out.setKind(choice_of<wire::KeyKind>(kind));
  out.setDtype(choice_of<wire::DType>(dtype));
  out.setGradientWire(choice_of<wire::DType>(gradient_wire));
  out.setWeightWire(choice_of<wire::DType>(weight_wire));
  out.setMomentum(momentum);
  if (initializer) put(out.initInitializer(), *initializer);
  out.setLrMult(lr_mult);
  if (wd_mult) out.initWdMult().setValue(*wd_mult);
}

void get(wire::KeyInfo::Reader in, KeyInfo& out, Intake& intake) {
  out.id = in.getId();
  intake.name(in.getName(), "key", out.name);
  get_shape(in.getShape(), out.shape, intake);
  intake.choice(in.getKind(), KeyKind::loss_scale, "kind", out.kind);
  intake.choice(in.getDtype(), base::DType::boolean, "dtype", out.dtype);
  intake.choice(in.getGradientWire(), base::DType::boolean, "gradient_wire", out.gradient_wire);
  intake.choice(in.getWeightWire(), base::DType::boolean, "weight_wire", out.weight_wire);
  intake.finite(in.getMomentum(), "momentum", out.momentum);
  if (in.hasInitializer()) get(in.getInitializer(), out.initializer.emplace(), intake);
  intake.finite(in.getLrMult(), "lr_mult", out.lr_mult);
  if (in.hasWdMult()) intake.finite(in.getWdMult().getValue(), "wd_mult", out.wd_mult.emplace());
}

void put(wire::JobSpec::Builder out, const JobSpec& m) {
  const auto& [name, seed, reproducible, model, data, train, workers, servers, consistency,
               checkpoint, numerics, memory, limits] = m;
  out.setName(text_of(name));
  out.setSeed(seed);
  out.setReproducible(reproducible);
  put(out.initModel(), model);
  put(out.initData(), data);
  put(out.initTrain(), train);
  put(out.initWorkers(), workers);
  const auto& [shards, server_threads] = servers;
  out.initServers().setShards(shards);
  out.getServers().setThreads(server_threads);
  const auto& [device, cluster] = consistency;
  put(out.initConsistency().initDevice(), device);
  put(out.getConsistency().initCluster(), cluster);
  put(out.initCheckpoint(), checkpoint);
  put(out.initNumerics(), numerics);
  put(out.initMemory(), memory);
  put_limits(out, limits);
}

void get(wire::JobSpec::Reader in, JobSpec& out, Intake& intake) {
  intake.name(in.getName(), "name", out.name);
  out.seed = in.getSeed();
  out.reproducible = in.getReproducible();
  get(in.getModel(), out.model, intake);
  get(in.getData(), out.data, intake);
  get(in.getTrain(), out.train, intake);
  get(in.getWorkers(), out.workers, intake);
  const auto servers = in.getServers();
  out.servers = {servers.getShards(), servers.getThreads()};
  const auto consistency = in.getConsistency();
  get(consistency.getDevice(), out.consistency.device, intake);
  get(consistency.getCluster(), out.consistency.cluster, intake);
  get(in.getCheckpoint(), out.checkpoint, intake);
  get(in.getNumerics(), out.numerics, intake);
  get(in.getMemory(), out.memory, intake);
  get_limits(in.getLimits(), out.limits, intake);
  // ranks() and shards() count in 32 bits and size tables.
  const std::uint64_t ranks = std::uint64_t{out.workers.machines} * out.workers.devices;
  intake.fits(ranks, out.consistency.sequential() ? kRanksMax : kEventualRanksMax, "workers");
  intake.fits(out.servers.shards, kRanksMax, "shards");
  // An engine without a thread ends its process.
  for (const auto& [threads, field] : {std::pair(out.workers.threads, "workers.threads"),
                                       std::pair(out.servers.threads, "servers.threads")}) {
    if (threads >= 1 && threads <= kThreadsMax) continue;
    intake.fail(field, fmt::format("is {}, not 1 to {}", threads, kThreadsMax));
  }
}

void put(wire::Manifest::Builder out, const Manifest& m) {
  const auto& [format_version, step, epoch, samples, generation, job_name, job_fingerprint,
               numeric_class, numerics_changed, seed, data, optimizer, optimizer_slots, schedule,
               steps_per_epoch, steps_total, keys, files] = m;
  out.setFormatVersion(format_version);
  out.setStep(step);
  out.setEpoch(epoch);
  out.setSamples(samples);
  out.setGeneration(generation);
  out.setJobName(text_of(job_name));
  out.setJobFingerprint(text_of(job_fingerprint));
  put(out.initNumericClass(), numeric_class);
  out.setNumericsChanged(numerics_changed);
  out.setSeed(seed);
  put(out.initData(), data);
  put(out.initOptimizer(), optimizer);
  put_names(out.initOptimizerSlots(size_of(optimizer_slots)), optimizer_slots);
  put(out.initSchedule(), schedule);
  out.setStepsPerEpoch(steps_per_epoch);
  out.setStepsTotal(steps_total);
  put_structs(out.initKeys(size_of(keys)), keys);
  auto list = out.initFiles(size_of(files));
  for (unsigned i = 0; i < list.size(); ++i) put(list[i], files[i]);
}

void get(wire::Manifest::Reader in, Manifest& out, Intake& intake) {
  out.format_version = in.getFormatVersion();
  out.step = in.getStep();
  out.epoch = in.getEpoch();
  out.samples = in.getSamples();
  out.generation = in.getGeneration();
  intake.name(in.getJobName(), "job_name", out.job_name);
  intake.text(in.getJobFingerprint(), kFingerprintBytesMax, "job_fingerprint", out.job_fingerprint);
  get(in.getNumericClass(), out.numeric_class, intake);
  out.numerics_changed = in.getNumericsChanged();
  out.seed = in.getSeed();
  get(in.getData(), out.data, intake);
  get(in.getOptimizer(), out.optimizer, intake);
  intake.names(in.getOptimizerSlots(), kMetricsMax, "optimizer_slots", out.optimizer_slots);
  get(in.getSchedule(), out.schedule, intake);
  out.steps_per_epoch = in.getStepsPerEpoch();
  out.steps_total = in.getStepsTotal();
  intake.structs(in.getKeys(), kKeysMax, "keys", out.keys);
  const auto files = in.getFiles();
  if (!intake.fits(files.size(), kRanksMax, "files")) return;
  out.files.resize(files.size());
  std::set<std::string_view> names;
  for (unsigned i = 0; i < files.size(); ++i) {
    get(files[i], out.files[i], intake);
    // Each is opened and read for itself.
    if (!names.insert(out.files[i].name).second) intake.fail("files", "names a file twice");
  }
}

}  // namespace troupe::schemas
