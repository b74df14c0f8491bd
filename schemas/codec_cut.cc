// SPDX-License-Identifier: Apache-2.0
// Codecs of the messages of a cut out of turn.
#include "schemas/codec_internal.h"

namespace troupe::schemas {

void put(wire::CutQuery::Builder out, const CutQuery& m) {
  const auto& [number] = m;
  out.setNumber(number);
}

void get(wire::CutQuery::Reader in, CutQuery& out, Intake&) {
  out.number = in.getNumber();
}

void put(wire::CutReady::Builder out, const CutReady& m) {
  const auto& [number, machine, next] = m;
  out.setNumber(number);
  out.setMachine(machine);
  out.setNext(next);
}

void get(wire::CutReady::Reader in, CutReady& out, Intake&) {
  out = {in.getNumber(), in.getMachine(), in.getNext()};
}

void put(wire::ExtraCut::Builder out, const ExtraCut& m) {
  const auto& [number, step, last] = m;
  out.setNumber(number);
  out.setStep(step);
  out.setLast(last);
}

void get(wire::ExtraCut::Reader in, ExtraCut& out, Intake&) {
  out = {in.getNumber(), in.getStep(), in.getLast()};
}

void put(wire::ExtraCutTaken::Builder out, const ExtraCutTaken& m) {
  const auto& [number, shard] = m;
  out.setNumber(number);
  out.setShard(shard);
}

void get(wire::ExtraCutTaken::Reader in, ExtraCutTaken& out, Intake&) {
  out = {in.getNumber(), in.getShard()};
}

void put(wire::AgentLeaving::Builder out, const AgentLeaving& m) {
  const auto& [text] = m;
  out.setText(text_of(sentence(text)));
}

void get(wire::AgentLeaving::Reader in, AgentLeaving& out, Intake& intake) {
  intake.text(in.getText(), kTextBytesMax, "text", out.text);
}

void put(wire::JobCheckpoint::Builder out, const JobCheckpoint& m) {
  const auto& [id] = m;
  out.setId(text_of(id));
}

void get(wire::JobCheckpoint::Reader in, JobCheckpoint& out, Intake& intake) {
  intake.name(in.getId(), "id", out.id);
}

void put(wire::JobCheckpointAnswer::Builder out, const JobCheckpointAnswer& m) {
  const auto& [code, text, step, path] = m;
  out.setCode(code_of(code));
  out.setText(text_of(sentence(text)));
  out.setStep(step);
  out.setPath(text_of(path));
}

void get(wire::JobCheckpointAnswer::Reader in, JobCheckpointAnswer& out, Intake& intake) {
  intake.code(in.getCode(), out.code);
  intake.text(in.getText(), kTextBytesMax, "text", out.text);
  out.step = in.getStep();
  intake.name(in.getPath(), "path", out.path);
}

}  // namespace troupe::schemas
