# SPDX-License-Identifier: Apache-2.0
# Manifest of a checkpoint, as manifest.h describes it; written last, so it makes a checkpoint
# complete. The file is this message, framed and checksummed as codec.h says.
@0xd0a1c5f4b7e21a04;
using Cxx = import "/capnp/c++.capnp";
using Common = import "common.capnp";
using Job = import "job.capnp";
$Cxx.namespace("troupe::schemas::wire");

struct ShardFile {
  shard @0 :UInt32;
  name @1 :Text;
  bytes @2 :UInt64;
  chunkBytes @3 :UInt64;
  checksums @4 :List(UInt32);
}

struct DataCursor {
  epoch @0 :UInt64;
  stepInEpoch @1 :UInt64;
  records @2 :UInt64;
  checksum @3 :UInt32;
  bytes @4 :UInt64;
}

struct Manifest {
  formatVersion @0 :UInt32;
  step @1 :UInt64;
  epoch @2 :UInt64;
  samples @3 :UInt64;
  generation @4 :UInt64;
  jobName @5 :Text;
  jobFingerprint @6 :Text;
  numericClass @7 :Common.NumericClass;
  numericsChanged @8 :Bool;
  seed @9 :UInt64;
  data @10 :DataCursor;
  optimizer @11 :Job.OptimizerSpec;
  optimizerSlots @12 :List(Text);
  schedule @13 :Job.ScheduleSpec;
  stepsPerEpoch @14 :UInt64;
  stepsTotal @15 :UInt64;
  keys @16 :List(Job.KeyInfo);
  files @17 :List(ShardFile);
}
