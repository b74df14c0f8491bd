// SPDX-License-Identifier: Apache-2.0
// Codecs of the messages between workers, device servers and parameter servers.
#include "schemas/codec_internal.h"

namespace troupe::schemas {
namespace {

constexpr std::uint8_t kTreeLevelMax = 1;

void put(wire::SliceId::Builder out, const SliceId& m) {
  const auto& [key, slice] = m;
  out.setKey(key);
  out.setSlice(slice);
}

SliceId slice_from(wire::SliceId::Reader in) {
  return {in.getKey(), in.getSlice()};
}

void put(wire::TreeNode::Builder out, const TreeNode& m) {
  const auto& [level, group, begin, end] = m;
  out.setLevel(level);
  out.setGroup(group);
  out.setBegin(begin);
  out.setEnd(end);
}

void get(wire::TreeNode::Reader in, TreeNode& out, Intake& intake) {
  out = {in.getLevel(), in.getGroup(), in.getBegin(), in.getEnd()};
  if (out.level > kTreeLevelMax) intake.fail("node", fmt::format("has level {}", out.level));
  if (out.begin > out.end) {
    intake.fail("node", fmt::format("has the range [{}, {})", out.begin, out.end));
  }
}

void check_count(double count, Intake& intake) {
  if (!(count >= 0.0)) intake.fail("count", fmt::format("is {}", count));
}

}  // namespace

void put(wire::GradientPush::Builder out, const GradientPush& m) {
  const auto& [slice, node, step, count, contributions, abstains] = m;
  put(out.initSlice(), slice);
  put(out.initNode(), node);
  out.setStep(step);
  out.setCount(count);
  auto list = out.initContributions(size_of(contributions));
  for (unsigned i = 0; i < list.size(); ++i) {
    const auto& [rank, of_step] = contributions[i];
    list[i].setRank(rank);
    list[i].setStep(of_step);
  }
  out.setAbstains(abstains);
}

void get(wire::GradientPush::Reader in, GradientPush& out, Intake& intake) {
  out.slice = slice_from(in.getSlice());
  get(in.getNode(), out.node, intake);
  out.step = in.getStep();
  intake.finite(in.getCount(), "count", out.count);
  check_count(out.count, intake);
  const auto list = in.getContributions();
  if (!intake.fits(list.size(), kRanksMax, "contributions")) return;
  out.contributions.reserve(list.size());
  for (const auto each : list) out.contributions.push_back({each.getRank(), each.getStep()});
  out.abstains = in.getAbstains();
  const bool brings_nothing = out.count == 0.0 && out.contributions.empty();
  if (out.abstains && !brings_nothing) {
    intake.fail("abstains", fmt::format("is set on a push of count {} with {} contributions",
                                        out.count, out.contributions.size()));
  }
}

void put(wire::PushAck::Builder out, const PushAck& m) {
  const auto& [slice, node, step, result] = m;
  put(out.initSlice(), slice);
  put(out.initNode(), node);
  out.setStep(step);
  out.setResult(choice_of<wire::PushResult>(result));
}

void get(wire::PushAck::Reader in, PushAck& out, Intake& intake) {
  out.slice = slice_from(in.getSlice());
  get(in.getNode(), out.node, intake);
  out.step = in.getStep();
  intake.choice(in.getResult(), PushResult::unknown, "result", out.result);
}

void put(wire::PushQuery::Builder out, const PushQuery& m) {
  const auto& [slice, node, step] = m;
  put(out.initSlice(), slice);
  put(out.initNode(), node);
  out.setStep(step);
}

void get(wire::PushQuery::Reader in, PushQuery& out, Intake& intake) {
  out.slice = slice_from(in.getSlice());
  get(in.getNode(), out.node, intake);
  out.step = in.getStep();
}

void put(wire::WeightPull::Builder out, const WeightPull& m) {
  const auto& [slice, version, applied_below, step] = m;
  put(out.initSlice(), slice);
  out.setVersion(version);
  out.setAppliedBelow(applied_below);
  out.setStep(step);
}

void get(wire::WeightPull::Reader in, WeightPull& out, Intake&) {
  out.slice = slice_from(in.getSlice());
  out.version = in.getVersion();
  out.applied_below = in.getAppliedBelow();
  out.step = in.getStep();
}

void put(wire::WeightReply::Builder out, const WeightReply& m) {
  const auto& [slice, version, step, code, text, next] = m;
  put(out.initSlice(), slice);
  out.setVersion(version);
  out.setStep(step);
  out.setCode(code_of(code));
  out.setText(text_of(sentence(text)));
  put_numbers(out.initNext(size_of(next)), next);
}

void get(wire::WeightReply::Reader in, WeightReply& out, Intake& intake) {
  out.slice = slice_from(in.getSlice());
  out.version = in.getVersion();
  out.step = in.getStep();
  intake.code(in.getCode(), out.code);
  intake.text(in.getText(), kTextBytesMax, "text", out.text);
  intake.numbers(in.getNext(), kRanksMax, "next", out.next);
}

void put(wire::Finished::Builder out, const Finished& m) {
  const auto& [ranks, steps] = m;
  put_numbers(out.initRanks(size_of(ranks)), ranks);
  out.setSteps(steps);
}

void get(wire::Finished::Reader in, Finished& out, Intake& intake) {
  intake.numbers(in.getRanks(), kRanksMax, "ranks", out.ranks);
  out.steps = in.getSteps();
}

void put(wire::StaleView::Builder out, const StaleView& m) {
  const auto& [current] = m;
  out.setCurrent(current);
}

void get(wire::StaleView::Reader in, StaleView& out, Intake&) {
  out.current = in.getCurrent();
}

void put(wire::ShardCheckpoint::Builder out, const ShardCheckpoint& m) {
  const auto& [step, shard, code, text, file, bytes, chunk_bytes, checksums] = m;
  out.setStep(step);
  out.setShard(shard);
  out.setCode(code_of(code));
  out.setText(text_of(sentence(text)));
  out.setFile(text_of(file));
  out.setBytes(bytes);
  out.setChunkBytes(chunk_bytes);
  put_numbers(out.initChecksums(size_of(checksums)), checksums);
}

void get(wire::ShardCheckpoint::Reader in, ShardCheckpoint& out, Intake& intake) {
  out.step = in.getStep();
  out.shard = in.getShard();
  intake.code(in.getCode(), out.code);
  intake.text(in.getText(), kTextBytesMax, "text", out.text);
  intake.name(in.getFile(), "file", out.file);
  out.bytes = in.getBytes();
  out.chunk_bytes = in.getChunkBytes();
  intake.numbers(in.getChecksums(), kChecksumsMax, "checksums", out.checksums);
}

}  // namespace troupe::schemas
