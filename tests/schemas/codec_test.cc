// SPDX-License-Identifier: Apache-2.0
// Messages, job specs and manifests survive the wire field by field; what breaks a rule is refused
// with a text that names it; damaged bytes never crash, hang or take much memory.
#include "schemas/codec.h"

#include <rapidcheck.h>

#include <cmath>
#include <limits>

#include "tests/schemas/reflect.h"
#include "tests/support/catch.h"

namespace troupe::schemas {
namespace {

using base::Errc;
using reflect::Filler;
using reflect::same;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

Envelope random_envelope(Filler& filler, std::size_t type) {
  Envelope envelope;
  filler.fill(envelope.job);
  filler.fill(envelope.generation);
  filler.fill(envelope.view);
  filler.fill(envelope.from);
  filler.fill(envelope.to);
  envelope.message = filler.message(type);
  return envelope;
}

TEST_CASE("every message survives the wire with all its fields", "[codec]") {
  for (std::size_t type = 0; type < kMessageTypes; ++type) {
    INFO(message_name(type));
    const bool passed = rc::check([type](std::uint64_t seed) {
      Filler filler(seed);
      const Envelope sent = random_envelope(filler, type);
      const auto bytes = encode_envelope(sent);
      RC_ASSERT(bytes.ok());
      const auto got = decode_envelope(bytes_of(*bytes));
      if (!got.ok()) RC_FAIL(got.status().to_string());
      RC_ASSERT(got->job == sent.job);
      RC_ASSERT(got->generation == sent.generation);
      RC_ASSERT(got->view == sent.view);
      RC_ASSERT(got->from == sent.from);
      RC_ASSERT(got->to == sent.to);
      RC_ASSERT(same(got->message, sent.message));
      RC_ASSERT(got->payload.empty());
      const auto inner = decode_message(encode_message(sent.message).value());
      RC_ASSERT(inner.ok());
      RC_ASSERT(same(*inner, sent.message));
    });
    CHECK(passed);
  }
}

TEST_CASE("every bit of special numbers survives", "[codec]") {
  JobList list;
  list.jobs.resize(1);
  for (const double value : {-0.0, std::numeric_limits<double>::denorm_min(),
                             std::numeric_limits<double>::infinity(), std::nan("5")}) {
    list.jobs[0].loss = value;
    const auto got = decode_message(encode_message(list).value());
    REQUIRE(got.ok());
    CHECK(same(std::get<JobList>(*got).jobs[0].loss, value));
  }
}

TEST_CASE("job specs survive with all fields and limits", "[codec]") {
  CHECK(rc::check([](std::uint64_t seed) {
    JobSpec spec;
    Filler(seed).fill(spec);
    const auto got = decode_job_spec(encode_job_spec(spec).value());
    if (!got.ok()) RC_FAIL(got.status().to_string());
    RC_ASSERT(same(*got, spec));
  }));
}

TEST_CASE("manifests survive with all fields", "[codec]") {
  CHECK(rc::check([](std::uint64_t seed) {
    Manifest manifest;
    Filler(seed).fill(manifest);
    manifest.format_version = kManifestVersion;
    for (std::size_t i = 0; i < manifest.files.size(); ++i) {
      manifest.files[i].name = fmt::format("{}-{}", i, manifest.files[i].name);
    }
    const auto got = decode_manifest(encode_manifest(manifest).value());
    if (!got.ok()) RC_FAIL(got.status().to_string());
    RC_ASSERT(same(*got, manifest));
  }));
}

/// Encodes `message` and expects the decoder to refuse it with a text that holds `part`.
void refused(const Message& message, const std::string& part) {
  const auto bytes = encode_message(message);
  REQUIRE(bytes.ok());
  const auto got = decode_message(*bytes);
  REQUIRE_FALSE(got.ok());
  CHECK(got.status().code() == Errc::data_loss);
  CHECK_THAT(got.status().text(), Catch::Contains(part));
}

TEST_CASE("manifests of networks with thousands of parameters survive", "[codec]") {
  Manifest manifest;
  for (std::uint32_t i = 0; i < 5'000; ++i) {
    KeyInfo key{i, fmt::format("stage{}_bn_gamma", i), base::Shape{64}};
    key.initializer.emplace().scale = 0.5;
    key.wd_mult = 0.0;
    manifest.keys.push_back(key);
  }
  const auto bytes = encode_manifest(manifest);
  REQUIRE(bytes.ok());
  const auto back = decode_manifest(*bytes);
  INFO(back.status().to_string());
  REQUIRE(back.ok());
  CHECK(back->keys.size() == manifest.keys.size());
  CHECK(back->keys.back().wd_mult == 0.0);
}

TEST_CASE("GPUs of an agent are few, their words are short, and each rank has one or none",
          "[codec]") {
  const std::string longest(kGpuTextBytesMax, 'n');
  AgentHello hello;
  hello.withheld = std::string(kTextBytesMax, 'w');
  hello.gpus.assign(kGpusMax, GpuOffer{63, longest, longest, ~std::uint64_t{0}});
  hello.lost_gpus.assign(kGpusMax, LostGpu{63, longest + "and more"});
  const auto bytes = encode_message(hello);
  REQUIRE(bytes.ok());
  auto got = decode_message(*bytes);
  REQUIRE(got.ok());
  auto& back = std::get<AgentHello>(*got);
  CHECK(back.gpus == hello.gpus);
  CHECK(back.lost_gpus.size() == kGpusMax);
  CHECK(back.lost_gpus[0].why.size() == kGpuTextBytesMax);  // shortened, not refused
  hello = {};
  hello.gpus.resize(kGpusMax + 1);
  refused(hello, "gpus has length 65; the limit is 64");
  hello.gpus = {GpuOffer{0, longest + "n", "", 1}};
  refused(hello, "gpus.name has length 129; the limit is 128");
  hello.gpus = {GpuOffer{0, "", longest + "n", 1}};
  refused(hello, "gpus.uuid has length 129");
  refused(AgentOffer{"", std::vector<LostGpu>(kGpusMax + 1)}, "lost_gpus has length 65");
  for (const double divisor : {0.0, -2.0}) {
    refused(StepVerdict{.divisor = divisor}, "divisor is ");
  }
  refused(StepFacts{.slices = std::vector<SliceFacts>(kFactsMax + 1)}, "slices has length");
  LaunchProcess launch;
  launch.ranks = {4, 5};
  launch.gpus = {0};
  refused(launch, "gpus has 1 entries for 2 ranks");
  launch.ranks.clear();
  refused(launch, "gpus has 1 entries for 0 ranks");
  launch.actor.role = Role::parameter_server;  // computes on none: its machine's ranks do
  CHECK(decode_message(encode_message(launch).value()).ok());
  launch.gpus = {kGpusMax};
  refused(launch, "gpus has GPU 64");
}

TEST_CASE("values that break a rule are refused by name", "[codec]") {
  refused(GradientPush{.count = std::nan("")}, "count");
  refused(GradientPush{.count = -1.0}, "count");
  refused(GradientPush{.node = {2, 0, 0, 1}}, "level 2");
  refused(GradientPush{.count = 1.0, .abstains = true}, "abstains is set on a push of count 1");
  refused(GradientPush{.contributions = {{0, 0}}, .abstains = true}, "with 1 contributions");
  refused(PushAck{.node = {0, 0, 3, 1}}, "[3, 1)");
  refused(PushAck{.result = static_cast<PushResult>(9)}, "result has the unknown value 9");
  refused(ActorDone{.actor = {static_cast<Role>(5), 0}}, "role");
  refused(EvaluationReport{.samples = 1, .correct = 2}, "2 of 1");
  refused(Placement{.machine_of_rank = {1}, .machines = {"a"}}, "machine 1 of 1");
  refused(Placement{.machine_of_shard = {0, 0}, .machines = {"a"}, .shard_addresses = {"x"}},
          "1 entries for 2");
  refused(Placement{.machine_of_rank = {0, 0}, .machines = {"a"}, .gpu_of_rank = {1}},
          "gpu_of_rank has 1 entries for 2 ranks");
  refused(Placement{.machine_of_rank = {0}, .machines = {"a"}, .gpu_of_rank = {64}},
          "gpu_of_rank has GPU 64");
  JobList list;
  list.ranks.emplace_back().gpu = kGpusMax;
  refused(list, "gpu is 64");
  refused(Hello{.lane = 3, .lanes = 2}, "lane is 3 of 2");
  refused(Hello{.lane = 1, .lanes = 2}, "lane is 1 of 2");
  refused(JobStop{.id = std::string(kNameBytesMax + 1, 'x')}, "id has length 4097");
  ProgressReport many;
  for (std::size_t i = 0; i <= kMetricsMax; ++i) many.metrics[std::to_string(i)] = {1, 1};
  refused(many, "metrics has length 257");
}

TEST_CASE("a sentence that is too long is shortened: its reader takes the message", "[codec]") {
  const std::string longer(20'000, 'x');
  const auto text_of = [](const Message& message) {
    Envelope envelope;
    envelope.message = message;
    const auto bytes = encode_envelope(envelope);
    REQUIRE(bytes.ok());
    const auto back = decode_envelope(std::as_bytes(std::span(*bytes)));
    REQUIRE(back.ok());
    return back->message;
  };
  JobInfo info;
  info.text = info.checkpoint = longer;
  const auto list = std::get<JobList>(text_of(JobList{Errc::ok, longer, {info, info}}));
  CHECK(list.text.size() == kTextBytesMax);
  CHECK(list.text.ends_with("xx..."));
  REQUIRE(list.jobs.size() == 2);
  CHECK(list.jobs[1].text == list.text);
  CHECK(list.jobs[1].checkpoint.size() == kNameBytesMax);
  CHECK(std::get<JobEnd>(text_of(JobEnd{Errc::internal, longer})).text == list.text);
  CHECK(std::get<JobSubmitted>(text_of(JobSubmitted{"a", Errc::internal, longer})).text ==
        list.text);
  CHECK(std::get<ActorFailed>(text_of(ActorFailed{{}, Errc::internal, longer})).text == list.text);
  const ActorId server{Role::parameter_server, 3};
  CHECK(std::get<ActorFailed>(text_of(ActorFailed{{}, Errc::internal, "", server})).lost == server);
  CHECK_FALSE(std::get<ActorFailed>(text_of(ActorFailed{})).lost.has_value());
  // A link's own words have 4 KiB with all else.
  CHECK(std::get<Goodbye>(text_of(Goodbye{longer})).text.size() == 2'048);
  HelloReply refusal;
  refusal.text = longer;
  CHECK(std::get<HelloReply>(text_of(refusal)).text.size() == 2'048);
}

TEST_CASE("an unknown error code is still an error", "[codec]") {
  const auto bytes = encode_message(JobEnd{.code = static_cast<Errc>(999), .text = "new"});
  CHECK(std::get<JobEnd>(*decode_message(*bytes)).code == Errc::internal);
}

TEST_CASE("a header beyond its type's limit is refused by sender and receiver", "[codec]") {
  WeightReply reply;
  reply.next.resize(3'000);
  Envelope envelope{.message = reply};
  const auto bytes = encode_envelope(envelope);
  REQUIRE_FALSE(bytes.ok());
  CHECK_THAT(bytes.status().text(), Catch::Contains("WeightReply"));
  reply.next.resize(kEventualRanksMax);
  CHECK(encode_envelope(Envelope{.message = reply}).ok());
  for (std::size_t type = 0; type < kMessageTypes; ++type) {
    CHECK(header_bytes_max(type) <= 4'194'304);
  }
  CHECK(header_bytes_max(type_of<GradientPush>()) == 16'384);
}

TEST_CASE("a job spec with a limit out of bounds or too many ranks is refused", "[codec]") {
  JobSpec spec;
  spec.limits.ping_ms = 0;
  CHECK_THAT(decode_job_spec(encode_job_spec(spec).value()).status().text(),
             Catch::Contains("ping_ms is 0, not 1 to"));
  spec = {};
  spec.limits.payload_bytes_max = 1'000;
  CHECK_THAT(decode_job_spec(encode_job_spec(spec).value()).status().text(),
             Catch::Contains("payload_bytes_max is 1000"));
  spec = {};
  spec.consistency.device.mode = ConsistencyMode::eventual;
  spec.workers.machines = kEventualRanksMax;
  CHECK(decode_job_spec(encode_job_spec(spec).value()).ok());
  ++spec.workers.machines;
  CHECK_THAT(decode_job_spec(encode_job_spec(spec).value()).status().text(),
             Catch::Contains("workers"));
  spec = {};
  spec.workers.machines = spec.workers.devices = 100'000;
  CHECK_THAT(decode_job_spec(encode_job_spec(spec).value()).status().text(),
             Catch::Contains("workers"));
}

TEST_CASE("a job spec without a thread, or with too many, is refused", "[codec]") {
  for (const std::uint32_t threads : {0U, kThreadsMax + 1, ~0U}) {
    JobSpec spec;
    spec.workers.threads = threads;
    CHECK_THAT(decode_job_spec(encode_job_spec(spec).value()).status().text(),
               Catch::Contains(fmt::format("workers.threads is {}, not 1 to 1024", threads)));
    spec.workers.threads = kThreadsMax;
    CHECK(decode_job_spec(encode_job_spec(spec).value()).ok());
    spec.servers.threads = threads;
    CHECK_THAT(decode_job_spec(encode_job_spec(spec).value()).status().text(),
               Catch::Contains(fmt::format("servers.threads is {}", threads)));
  }
}

TEST_CASE("a manifest's first bytes, version, length and checksum are checked", "[codec]") {
  Manifest manifest;
  manifest.job_name = "m";
  const std::string good = encode_manifest(manifest).value();
  for (std::size_t length = 0; length < good.size(); ++length) {
    CHECK_FALSE(decode_manifest(good.substr(0, length)).ok());
  }
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    REQUIRE_FALSE(decode_manifest(bad).ok());
  }
  manifest.format_version = kManifestVersion + 1;
  const auto newer = decode_manifest(encode_manifest(manifest).value());
  CHECK(newer.status().code() == Errc::version_mismatch);
  manifest.format_version = kManifestVersion;
  manifest.files.push_back({.shard = 0, .name = "../x"});
  CHECK_THAT(decode_manifest(encode_manifest(manifest).value()).status().text(),
             Catch::Contains("'../x' is no file name"));
  manifest.files = {{.shard = 0, .name = "x"}, {.shard = 1, .name = "x"}};
  CHECK_THAT(decode_manifest(encode_manifest(manifest).value()).status().text(),
             Catch::Contains("names a file twice"));
}

TEST_CASE("a key's shape must have extents that can be counted", "[codec]") {
  const auto refusal = [](const base::Shape& shape) {
    Manifest manifest;
    manifest.keys.push_back({.name = "w", .shape = shape});
    return decode_manifest(encode_manifest(manifest).value()).status().text();
  };
  CHECK(refusal({3, 5}).empty());
  CHECK_THAT(refusal({3, -2}), Catch::Contains("has the extent -2"));
  const std::int64_t huge = std::int64_t{1} << 40;
  CHECK_THAT(refusal({huge, 2}), Catch::Contains("more than 2^40 elements"));
  // A zero hides nothing: parts of the shape are multiplied too.
  CHECK_THAT(refusal({0, huge, huge}), Catch::Contains("more than 2^40 elements"));
}

TEST_CASE("truncated, flipped and random bytes are harmless", "[codec]") {
  CHECK(rc::check([](std::uint64_t seed) {
    Filler filler(seed);
    const auto type = filler.below(kMessageTypes);
    std::string bytes = encode_envelope(random_envelope(filler, type)).value();
    switch (filler.below(3)) {
      case 0:
        bytes.resize(filler.below(bytes.size()));
        break;
      case 1:
        for (auto flips = 1 + filler.below(6); flips > 0; --flips) {
          const auto bit = filler.below(bytes.size() * 8);
          bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
        }
        break;
      default:
        for (char& c : bytes) c = static_cast<char>(filler.below(256));
    }
    const auto got = decode_envelope(bytes_of(bytes));
    // What is accepted is a message that can be sent on.
    if (got.ok()) RC_ASSERT(encode_message(got->message).ok());
    (void)decode_job_spec(bytes).ok();
    (void)decode_message(bytes).ok();
  }));
}

TEST_CASE("misaligned bytes decode alike", "[codec]") {
  const std::string bytes = encode_message(JobStop{.id = "j"}).value();
  const std::string shifted = "x" + bytes;
  const auto got = decode_message(std::string_view(shifted).substr(1));
  REQUIRE(got.ok());
  CHECK(std::get<JobStop>(*got).id == "j");
  CHECK_FALSE(decode_message(bytes + std::string(8, '\0')).ok());
}

TEST_CASE("a message copies what its maker keeps, and moves what is given away", "[messages]") {
  const std::string text(100, 'x');  // longer than what a string holds without memory
  Goodbye kept{text};
  const Goodbye constant{text};
  for (const Message& made :
       {Message(kept), Message(constant), Message(static_cast<const Goodbye&&>(constant))}) {
    CHECK(std::get<Goodbye>(made).text == text);
  }
  CHECK((kept.text == text && constant.text == text));
  const char* const bytes = kept.text.data();
  const Message moved(std::move(kept));
  CHECK(std::get<Goodbye>(moved).text.data() == bytes);
}

TEST_CASE("names of messages, roles and phases", "[messages]") {
  CHECK(message_name(type_of<GradientPush>()) == "GradientPush");
  CHECK(message_name(type_of<FolderProbeResult>()) == "FolderProbeResult");
  CHECK(message_name(type_of<Goodbye>()) == "Goodbye");
  CHECK(message_name(99) == "unknown");
  CHECK(ActorId{Role::device_server, 2}.to_string() == "device server 2");
  CHECK(ActorId{Role::coordinator, 0}.to_string() == "coordinator");  // there is one
  CHECK(job_phase_name(JobPhase::stopped) == "stopped");
  CHECK(slice_of(WeightPull{.slice = {3, 4}}) == SliceId{3, 4});
  CHECK_FALSE(slice_of(Ping{}).has_value());
}

TEST_CASE("final phases are the last three", "[messages]") {
  for (int phase = 0; phase <= static_cast<int>(JobPhase::stopped); ++phase) {
    CHECK(is_final(static_cast<JobPhase>(phase)) ==
          (phase >= static_cast<int>(JobPhase::succeeded)));
  }
}

TEST_CASE("a placement knows where actors are and what people call them", "[messages]") {
  Placement placement;
  placement.machines = {"a", "b"};
  placement.machine_of_rank = {0, 0, 1};
  placement.machine_of_shard = {1};
  CHECK(placement.machine_of({Role::worker, 2}) == 1U);
  CHECK(placement.machine_of({Role::parameter_server, 0}) == 1U);
  CHECK(placement.machine_of({Role::device_server, 1}) == 1U);
  CHECK(placement.name_of({Role::worker, 1}) == "worker 1 on machine 'a'");
  CHECK(placement.name_of({Role::parameter_server, 0}) == "parameter server 0 on machine 'b'");
  CHECK_FALSE(placement.gpu_of({Role::worker, 1}));
  for (const ActorId stranger :
       {ActorId{Role::worker, 3}, ActorId{Role::parameter_server, 1},
        ActorId{Role::device_server, 2}, ActorId{Role::coordinator, 0}, ActorId{Role::agent, 1}}) {
    CHECK_FALSE(placement.machine_of(stranger).has_value());
    CHECK(placement.name_of(stranger) == stranger.to_string());
    CHECK_FALSE(placement.gpu_of(stranger));
  }
  placement.gpu_of_rank = {4, 4, 0};
  CHECK(placement.gpu_of({Role::worker, 2}) == 0U);
  CHECK(placement.name_of({Role::worker, 1}) == "worker 1 on GPU 4 of machine 'a'");
  for (const Role role : {Role::parameter_server, Role::device_server}) {
    CHECK_FALSE(placement.gpu_of({role, 0}));
    CHECK_THAT(placement.name_of({role, 0}), !Catch::Contains("GPU"));
  }
}

TEST_CASE("an answer names its push, and an abstention is another push than the sum",
          "[messages]") {
  const GradientPush push{.slice = {3, 4}, .node = {1, 0, 2, 3}, .step = 7, .count = 1.0};
  const PushAck ack{push.slice, push.node, push.step, PushResult::taken};
  CHECK(push_name(ack, 2) == push_name(push, 2));
  CHECK(push_name(ack, 1) != push_name(push, 2));
  const GradientPush abstention{.slice = {3, 4}, .node = {1, 0, 2, 2}, .step = 7, .abstains = true};
  CHECK(push_name(ack, 2) != push_name(abstention, 2));
}

}  // namespace
}  // namespace troupe::schemas
