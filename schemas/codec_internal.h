// SPDX-License-Identifier: Apache-2.0
// What the codec's files share: Intake collects the first fault of a decoding; put() fills a
// Cap'n Proto builder, get() checks and copies a reader. Every put() opens its struct with a
// structured binding, so a field without a codec does not compile.
// Private to this folder.
#pragma once

#include <capnp/message.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "schemas/codec.h"
#include "schemas/common.capnp.h"
#include "schemas/job.capnp.h"
#include "schemas/manifest.capnp.h"
#include "schemas/wire.capnp.h"

namespace troupe::schemas {

/// Checks what a reader gives and remembers the first fault; later calls go on harmlessly, since
/// every length is bounded before it is copied.
class Intake {
 public:
  const base::Status& status() const { return status_; }

  void fail(std::string_view field, std::string_view what) {
    if (status_.ok()) status_ = base::error(base::Errc::data_loss, "{} {}", field, what);
  }

  /// An enumerator of at most `last`.
  template <typename Wire, typename Plain>
  void choice(Wire in, Plain last, std::string_view field, Plain& out) {
    const auto number = static_cast<std::uint16_t>(in);
    if (number > static_cast<std::uint16_t>(last)) {
      return fail(field, fmt::format("has the unknown value {}", number));
    }
    out = static_cast<Plain>(number);
  }

  /// Unknown codes become Errc::internal, so that a newer peer's error is still an error.
  void code(wire::Errc in, base::Errc& out) {
    out = base::errc_from_wire(static_cast<std::uint16_t>(in));
  }

  /// Text or Data of at most `bytes_max` bytes.
  template <typename In>
  void text(In in, std::size_t bytes_max, std::string_view field, std::string& out) {
    if (!fits(in.size(), bytes_max, field)) return;
    out.assign(reinterpret_cast<const char*>(in.begin()), in.size());
  }
  void name(capnp::Text::Reader in, std::string_view field, std::string& out) {
    text(in, kNameBytesMax, field, out);
  }

  /// Exactly the bytes of `out`.
  template <std::size_t N>
  void bytes(capnp::Data::Reader in, std::string_view field, std::array<std::uint8_t, N>& out) {
    if (in.size() != N) return fail(field, fmt::format("has {} bytes, not {}", in.size(), N));
    std::copy(in.begin(), in.end(), out.begin());
  }

  void finite(double in, std::string_view field, double& out) {
    if (!std::isfinite(in)) fail(field, "is not finite");
    out = in;
  }

  template <typename List, typename Number>
  void numbers(List in, std::size_t count_max, std::string_view field, std::vector<Number>& out) {
    if (!fits(in.size(), count_max, field)) return;
    out.resize(in.size());
    for (unsigned i = 0; i < in.size(); ++i) out[i] = in[i];
  }
  /// A GPU's index for each of `ranks`, or none at all.
  template <typename List>
  void gpus(List in, std::size_t ranks, std::string_view field, std::vector<std::uint32_t>& out) {
    numbers(in, kRanksMax, field, out);
    for (const std::uint32_t gpu : out) {
      if (gpu >= kGpusMax) fail(field, fmt::format("has GPU {}", gpu));
    }
    if (!out.empty() && out.size() != ranks) {
      fail(field, fmt::format("has {} entries for {} ranks", out.size(), ranks));
    }
  }
  void names(capnp::List<capnp::Text>::Reader in, std::size_t count_max, std::string_view field,
             std::vector<std::string>& out) {
    if (!fits(in.size(), count_max, field)) return;
    out.resize(in.size());
    for (unsigned i = 0; i < in.size(); ++i) name(in[i], field, out[i]);
  }
  /// A list of structs, each by its get().
  template <typename List, typename Plain>
  void structs(List in, std::size_t count_max, std::string_view field, std::vector<Plain>& out) {
    if (!fits(in.size(), count_max, field)) return;
    out.resize(in.size());
    for (unsigned i = 0; i < in.size() && status_.ok(); ++i) get(in[i], out[i], *this);
  }

  bool fits(std::size_t count, std::size_t count_max, std::string_view field) {
    if (count <= count_max) return true;
    fail(field, fmt::format("has length {}; the limit is {}", count, count_max));
    return false;
  }

 private:
  base::Status status_;
};

inline capnp::Text::Reader text_of(const std::string& text) {
  return {text.c_str(), text.size()};
}
/// A sentence that its reader takes: who refuses a whole answer for a long one in it learns
/// nothing.
inline std::string sentence(const std::string& text, std::size_t bytes_max = kTextBytesMax) {
  return base::shortened(text, bytes_max);
}
inline capnp::Data::Reader data_of(const std::string& bytes) {
  return {reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size()};
}
template <std::size_t N>
capnp::Data::Reader data_of(const std::array<std::uint8_t, N>& bytes) {
  return {bytes.data(), bytes.size()};
}
template <typename Wire, typename Plain>
Wire choice_of(Plain value) {
  return static_cast<Wire>(static_cast<std::uint16_t>(value));
}
inline wire::Errc code_of(base::Errc code) {
  return choice_of<wire::Errc>(code);
}
/// Cap'n Proto counts lists in 32 bits; what is longer fails its own check for 29.
template <typename Container>
unsigned size_of(const Container& values) {
  constexpr std::size_t kMost = std::numeric_limits<unsigned>::max();
  return static_cast<unsigned>(values.size() < kMost ? values.size() : kMost);
}
template <typename List, typename Number>
void put_numbers(List out, const std::vector<Number>& values) {
  for (unsigned i = 0; i < out.size(); ++i) out.set(i, values[i]);
}
template <typename List>
void put_names(List out, const std::vector<std::string>& values) {
  for (unsigned i = 0; i < out.size(); ++i) out.set(i, text_of(values[i]));
}
template <typename List, typename Plain>
void put_structs(List out, const std::vector<Plain>& values) {
  for (unsigned i = 0; i < out.size(); ++i) put(out[i], values[i]);
}

// Shared parts.
void put(wire::ActorId::Builder out, const ActorId& m);
void get(wire::ActorId::Reader in, ActorId& out, Intake& intake);
void put(wire::KeyInfo::Builder out, const KeyInfo& m);
void get(wire::KeyInfo::Reader in, KeyInfo& out, Intake& intake);
void put(wire::NumericClass::Builder out, const base::NumericClass& m);
void get(wire::NumericClass::Reader in, base::NumericClass& out, Intake& intake);
void put(wire::KeyRule::Builder out, const KeyRule& m);
void get(wire::KeyRule::Reader in, KeyRule& out, Intake& intake);
void put(wire::OptimizerSpec::Builder out, const OptimizerSpec& m);
void get(wire::OptimizerSpec::Reader in, OptimizerSpec& out, Intake& intake);
void put(wire::ScheduleSpec::Builder out, const ScheduleSpec& m);
void get(wire::ScheduleSpec::Reader in, ScheduleSpec& out, Intake& intake);

// The roots.
void put(wire::Message::Builder out, const Message& message);
void get(wire::Message::Reader in, Message& out, Intake& intake);
void put(wire::JobSpec::Builder out, const JobSpec& m);
void get(wire::JobSpec::Reader in, JobSpec& out, Intake& intake);
void put(wire::Manifest::Builder out, const Manifest& m);
void get(wire::Manifest::Reader in, Manifest& out, Intake& intake);

// Messages between workers, device servers and parameter servers: codec_data.cc.
void put(wire::GradientPush::Builder out, const GradientPush& m);
void get(wire::GradientPush::Reader in, GradientPush& out, Intake& intake);
void put(wire::PushAck::Builder out, const PushAck& m);
void get(wire::PushAck::Reader in, PushAck& out, Intake& intake);
void put(wire::PushQuery::Builder out, const PushQuery& m);
void get(wire::PushQuery::Reader in, PushQuery& out, Intake& intake);
void put(wire::WeightPull::Builder out, const WeightPull& m);
void get(wire::WeightPull::Reader in, WeightPull& out, Intake& intake);
void put(wire::WeightReply::Builder out, const WeightReply& m);
void get(wire::WeightReply::Reader in, WeightReply& out, Intake& intake);
void put(wire::Finished::Builder out, const Finished& m);
void get(wire::Finished::Reader in, Finished& out, Intake& intake);
void put(wire::StaleView::Builder out, const StaleView& m);
void get(wire::StaleView::Reader in, StaleView& out, Intake& intake);
void put(wire::ShardCheckpoint::Builder out, const ShardCheckpoint& m);
void get(wire::ShardCheckpoint::Reader in, ShardCheckpoint& out, Intake& intake);

// A job's processes and the coordinator: codec_process.cc.
void put(wire::DatasetReport::Builder out, const DatasetReport& m);
void get(wire::DatasetReport::Reader in, DatasetReport& out, Intake& intake);
void put(wire::TrainingStart::Builder out, const TrainingStart& m);
void get(wire::TrainingStart::Reader in, TrainingStart& out, Intake& intake);
void put(wire::ProgressReport::Builder out, const ProgressReport& m);
void get(wire::ProgressReport::Reader in, ProgressReport& out, Intake& intake);
void put(wire::EvaluationReport::Builder out, const EvaluationReport& m);
void get(wire::EvaluationReport::Reader in, EvaluationReport& out, Intake& intake);
void put(wire::CheckpointReport::Builder out, const CheckpointReport& m);
void get(wire::CheckpointReport::Reader in, CheckpointReport& out, Intake& intake);
void put(wire::ServerReport::Builder out, const ServerReport& m);
void get(wire::ServerReport::Reader in, ServerReport& out, Intake& intake);
void put(wire::ActorDone::Builder out, const ActorDone& m);
void get(wire::ActorDone::Reader in, ActorDone& out, Intake& intake);
void put(wire::ActorFailed::Builder out, const ActorFailed& m);
void get(wire::ActorFailed::Reader in, ActorFailed& out, Intake& intake);
void put(wire::JobEnd::Builder out, const JobEnd& m);
void get(wire::JobEnd::Reader in, JobEnd& out, Intake& intake);
void put(wire::Placement::Builder out, const Placement& m);
void get(wire::Placement::Reader in, Placement& out, Intake& intake);
void put(wire::ProcessReady::Builder out, const ProcessReady& m);
void get(wire::ProcessReady::Reader in, ProcessReady& out, Intake& intake);

// A cut out of turn: codec_cut.cc.
void put(wire::CutQuery::Builder out, const CutQuery& m);
void get(wire::CutQuery::Reader in, CutQuery& out, Intake& intake);
void put(wire::CutReady::Builder out, const CutReady& m);
void get(wire::CutReady::Reader in, CutReady& out, Intake& intake);
void put(wire::ExtraCut::Builder out, const ExtraCut& m);
void get(wire::ExtraCut::Reader in, ExtraCut& out, Intake& intake);
void put(wire::ExtraCutTaken::Builder out, const ExtraCutTaken& m);
void get(wire::ExtraCutTaken::Reader in, ExtraCutTaken& out, Intake& intake);
void put(wire::AgentLeaving::Builder out, const AgentLeaving& m);
void get(wire::AgentLeaving::Reader in, AgentLeaving& out, Intake& intake);
void put(wire::JobCheckpoint::Builder out, const JobCheckpoint& m);
void get(wire::JobCheckpoint::Reader in, JobCheckpoint& out, Intake& intake);
void put(wire::JobCheckpointAnswer::Builder out, const JobCheckpointAnswer& m);
void get(wire::JobCheckpointAnswer::Reader in, JobCheckpointAnswer& out, Intake& intake);

// Copies of checkpoints: codec_copy.cc.
void put(wire::PieceQuery::Builder out, const PieceQuery& m);
void get(wire::PieceQuery::Reader in, PieceQuery& out, Intake& intake);
void put(wire::FilePiece::Builder out, const FilePiece& m);
void get(wire::FilePiece::Reader in, FilePiece& out, Intake& intake);
void put(wire::PlaceCheckpoint::Builder out, const PlaceCheckpoint& m);
void get(wire::PlaceCheckpoint::Reader in, PlaceCheckpoint& out, Intake& intake);
void put(wire::CheckpointPlaced::Builder out, const CheckpointPlaced& m);
void get(wire::CheckpointPlaced::Reader in, CheckpointPlaced& out, Intake& intake);
void put(wire::DropCheckpoint::Builder out, const DropCheckpoint& m);
void get(wire::DropCheckpoint::Reader in, DropCheckpoint& out, Intake& intake);

// What parameter servers decide together: codec_verdict.cc.
void put(wire::SliceFacts::Builder out, const SliceFacts& m);
void get(wire::SliceFacts::Reader in, SliceFacts& out, Intake& intake);
void put(wire::StepFacts::Builder out, const StepFacts& m);
void get(wire::StepFacts::Reader in, StepFacts& out, Intake& intake);
void put(wire::StepVerdict::Builder out, const StepVerdict& m);
void get(wire::StepVerdict::Reader in, StepVerdict& out, Intake& intake);

// What agents offer: codec_offer.cc.
void put(wire::GpuOffer::Builder out, const GpuOffer& m);
void get(wire::GpuOffer::Reader in, GpuOffer& out, Intake& intake);
void put(wire::LostGpu::Builder out, const LostGpu& m);
void get(wire::LostGpu::Reader in, LostGpu& out, Intake& intake);
void put(wire::AgentHello::Builder out, const AgentHello& m);
void get(wire::AgentHello::Reader in, AgentHello& out, Intake& intake);
void put(wire::AgentWelcome::Builder out, const AgentWelcome& m);
void get(wire::AgentWelcome::Reader in, AgentWelcome& out, Intake& intake);
void put(wire::AgentOffer::Builder out, const AgentOffer& m);
void get(wire::AgentOffer::Reader in, AgentOffer& out, Intake& intake);
void put(wire::MachineInfo::Builder out, const MachineInfo& m);
void get(wire::MachineInfo::Reader in, MachineInfo& out, Intake& intake);

// Agents, people and links: codec_cluster.cc.
void put(wire::LaunchProcess::Builder out, const LaunchProcess& m);
void get(wire::LaunchProcess::Reader in, LaunchProcess& out, Intake& intake);
void put(wire::StopProcesses::Builder out, const StopProcesses& m);
void get(wire::StopProcesses::Reader in, StopProcesses& out, Intake& intake);
void put(wire::ProcessExited::Builder out, const ProcessExited& m);
void get(wire::ProcessExited::Reader in, ProcessExited& out, Intake& intake);
void put(wire::ProcessMessage::Builder out, const ProcessMessage& m);
void get(wire::ProcessMessage::Reader in, ProcessMessage& out, Intake& intake);
void put(wire::FolderProbe::Builder out, const FolderProbe& m);
void get(wire::FolderProbe::Reader in, FolderProbe& out, Intake& intake);
void put(wire::NamedCheckpoint::Builder out, const NamedCheckpoint& m);
void get(wire::NamedCheckpoint::Reader in, NamedCheckpoint& out, Intake& intake);
void put(wire::FolderProbeResult::Builder out, const FolderProbeResult& m);
void get(wire::FolderProbeResult::Reader in, FolderProbeResult& out, Intake& intake);
void put(wire::JobSubmit::Builder out, const JobSubmit& m);
void get(wire::JobSubmit::Reader in, JobSubmit& out, Intake& intake);
void put(wire::JobSubmitted::Builder out, const JobSubmitted& m);
void get(wire::JobSubmitted::Reader in, JobSubmitted& out, Intake& intake);
void put(wire::JobQuery::Builder out, const JobQuery& m);
void get(wire::JobQuery::Reader in, JobQuery& out, Intake& intake);
void put(wire::JobList::Builder out, const JobList& m);
void get(wire::JobList::Reader in, JobList& out, Intake& intake);
void put(wire::JobStop::Builder out, const JobStop& m);
void get(wire::JobStop::Reader in, JobStop& out, Intake& intake);
void put(wire::PersonHello::Builder out, const PersonHello& m);
void get(wire::PersonHello::Reader in, PersonHello& out, Intake& intake);
void put(wire::DenyList::Builder out, const DenyList& m);
void get(wire::DenyList::Reader in, DenyList& out, Intake& intake);
void put(wire::Hello::Builder out, const Hello& m);
void get(wire::Hello::Reader in, Hello& out, Intake& intake);
void put(wire::HelloReply::Builder out, const HelloReply& m);
void get(wire::HelloReply::Reader in, HelloReply& out, Intake& intake);
void put(wire::Ping::Builder out, const Ping& m);
void get(wire::Ping::Reader in, Ping& out, Intake& intake);
void put(wire::Pong::Builder out, const Pong& m);
void get(wire::Pong::Reader in, Pong& out, Intake& intake);
void put(wire::Goodbye::Builder out, const Goodbye& m);
void get(wire::Goodbye::Reader in, Goodbye& out, Intake& intake);
void put(wire::Challenge::Builder out, const Challenge& m);
void get(wire::Challenge::Reader in, Challenge& out, Intake& intake);
void put(wire::Proof::Builder out, const Proof& m);
void get(wire::Proof::Reader in, Proof& out, Intake& intake);

}  // namespace troupe::schemas
