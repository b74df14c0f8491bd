# SPDX-License-Identifier: Apache-2.0
# A job as data, as job_spec.h describes it, and its keys, as messages.h does. An absent optional
# value is a null pointer.
@0xd0a1c5f4b7e21a03;
using Cxx = import "/capnp/c++.capnp";
using Common = import "common.capnp";
$Cxx.namespace("troupe::schemas::wire");

struct OptionalFloat64 {
  value @0 :Float64;
}

struct Period {
  enum Unit {
    steps @0;
    epochs @1;
  }
  count @0 :UInt64;
  unit @1 :Unit;
}

struct ModelSpec {
  network @0 :Text;
  symbol @1 :Text;
  symbolJson @2 :Text;
  classes @3 :UInt32;
  input @4 :List(Int64);
  dropout @5 :OptionalFloat64;
  bias @6 :Common.OptionalUInt64;  # 0 or 1
}

enum BadRecord {
  fail @0;
  skip @1;
}

struct AugmentSpec {
  cropPadding @0 :UInt32;
  mirror @1 :Bool;
}

struct DataSpec {
  train @0 :Text;
  test @1 :Text;
  mean @2 :List(Float32);
  std @3 :List(Float32);
  batch @4 :UInt32;
  testBatch @5 :UInt32;
  prefetchThreads @6 :UInt32;
  prefetchBatches @7 :UInt32;
  onBadRecord @8 :BadRecord;
  augment @9 :AugmentSpec;
}

enum Decay {
  all @0;
  weights @1;
}

struct OptimizerSpec {
  name @0 :Text;
  lr @1 :Float64;
  momentum @2 :Float64;
  wd @3 :Float64;
  clipGradient @4 :Float64;
  symbol @5 :Text;
  symbolJson @6 :Text;
  decay @7 :Decay;
  clipNorm @8 :Float64;
}

struct KeyRule {
  match @0 :Text;
  lrMult @1 :OptionalFloat64;
  wdMult @2 :OptionalFloat64;
}

enum ScheduleKind {
  constant @0;
  cosine @1;
}

struct ScheduleSpec {
  kind @0 :ScheduleKind;
  warmup @1 :Period;
  warmupLr @2 :Float64;
  finalLr @3 :Float64;
}

enum InitializerKind {
  uniform @0;
  normal @1;
  xavier @2;
  msra @3;
  constant @4;
}

enum FanKind {
  average @0;
  in @1;
  out @2;
}

enum Distribution {
  uniform @0;
  normal @1;
}

struct InitializerSpec {
  kind @0 :InitializerKind;
  scale @1 :OptionalFloat64;
  fan @2 :FanKind;
  distribution @3 :Distribution;
}

enum KeyKind {
  dense @0;
  average @1;
  rows @2;
  lossScale @3;
}

struct KeyInfo {
  id @0 :UInt32;
  name @1 :Text;
  shape @2 :List(Int64);
  kind @3 :KeyKind;
  dtype @4 :Common.DType;
  gradientWire @5 :Common.DType;
  weightWire @6 :Common.DType;
  momentum @7 :Float64;
  initializer @8 :InitializerSpec;  # null: the job's
  lrMult @9 :Float64 = 1;
  wdMult @10 :OptionalFloat64;
}

enum Hold {
  none @0;
  untilScraped @1;
}

enum NonFinite {
  fail @0;
  ignore @1;
}

struct TrainSpec {
  epochs @0 :UInt32;
  maxSteps @1 :Common.OptionalUInt64;
  optimizer @2 :OptimizerSpec;
  schedule @3 :ScheduleSpec;
  initializer @4 :InitializerSpec;
  weights @5 :Text;
  logEvery @6 :Period;
  scoreEvery @7 :Period;
  hold @8 :Hold;
  nonFinite @9 :NonFinite;
  keys @10 :List(KeyRule);
}

enum WorkerDevice {
  cpu @0;
  gpu @1;
}

struct WorkersSpec {
  machines @0 :UInt32;
  devices @1 :UInt32;
  threads @2 :UInt32;
  device @3 :WorkerDevice;
  memory @4 :UInt64;  # bytes of a GPU, at least
  gpuGraphs @5 :Bool = true;
  gpuSums @6 :Bool = true;
}

struct ServersSpec {
  shards @0 :UInt32;
  threads @1 :UInt32;
}

enum ConsistencyMode {
  sequential @0;
  eventual @1;
}

struct TierSpec {
  mode @0 :ConsistencyMode;
  maxStaleness @1 :Common.OptionalUInt64;
}

struct ConsistencySpec {
  device @0 :TierSpec;
  cluster @1 :TierSpec;
}

struct CheckpointSpec {
  dir @0 :Text;
  every @1 :Period;
  keep @2 :UInt32;
  resume @3 :Bool;
  changeNumerics @4 :Bool;
}

enum Isa {
  native @0;
  avx2 @1;
  avx512 @2;
}

enum LayoutChoice {
  automatic @0;
  dense @1;
}

struct NumericsSpec {
  isa @0 :Isa;
  layout @1 :LayoutChoice;
  referenceOnly @2 :Bool;
  dtype @3 :Common.DType;
  winograd @4 :Bool = true;
  kernels @5 :Text;
  kernelsJson @6 :Text;
  gradientWire @7 :WireType;
  weightWire @8 :WireType;
  lossScale @9 :Float64 = 1024;
  lossScaleSteps @10 :UInt64 = 2000;
  tf32 @11 :Bool;
}

enum WireType {
  same @0;
  bf16 @1;
  f16 @2;
}

enum Recompute {
  none @0;
  cheap @1;
  sqrt @2;
  automatic @3;
}

struct MemorySpec {
  recompute @0 :Recompute = cheap;
  budget @1 :UInt64;  # bytes; 0: none
  subBatch @2 :UInt64;  # samples of a prediction's parts; 0: chosen
  deviceLimit @3 :UInt64;  # bytes; 0: none
}

struct LimitValue {
  name @0 :Text;
  value @1 :UInt64;
}

struct JobSpec {
  name @0 :Text;
  seed @1 :UInt64;
  reproducible @2 :Bool;
  model @3 :ModelSpec;
  data @4 :DataSpec;
  train @5 :TrainSpec;
  workers @6 :WorkersSpec;
  servers @7 :ServersSpec;
  consistency @8 :ConsistencySpec;
  checkpoint @9 :CheckpointSpec;
  numerics @10 :NumericsSpec;
  limits @11 :List(LimitValue);  # every limit by name
  memory @12 :MemorySpec;
}
