# SPDX-License-Identifier: Apache-2.0
# What messages, job specs and manifests share. Numbers mirror the C++ enums: append only.
@0xd0a1c5f4b7e21a01;
using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("troupe::schemas::wire");

# base::Errc.
enum Errc {
  ok @0;
  invalidArgument @1;
  notFound @2;
  alreadyExists @3;
  failedPrecondition @4;
  resourceExhausted @5;
  unavailable @6;
  deadlineExceeded @7;
  cancelled @8;
  abandoned @9;
  dataLoss @10;
  permissionDenied @11;
  unimplemented @12;
  staleView @13;
  versionMismatch @14;
  notFinite @15;
  internal @16;
  ioError @17;
}

enum Role {
  coordinator @0;
  agent @1;
  worker @2;
  deviceServer @3;
  parameterServer @4;
}

# An optional value; absent: a null pointer.
struct OptionalUInt64 {
  value @0 :UInt64;
}

struct ActorId {
  role @0 :Role;
  index @1 :UInt32;
}

enum DType {
  f32 @0;
  f64 @1;
  f16 @2;
  bf16 @3;
  i64 @4;
  i32 @5;
  i8 @6;
  u8 @7;
  boolean @8;
}

struct NumericClass {
  build @0 :Text;
  onednn @1 :Text;
  libm @2 :Text;
  isa @3 :Text;
  caches @4 :Text;
  threads @5 :Int32;
  deviceModel @6 :Text;
}
