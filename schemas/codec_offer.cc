// SPDX-License-Identifier: Apache-2.0
// Codecs of what agents offer. Lengths are bounded here; whether a GPU is one that a machine can
// have is the coordinator's question (control/gpu_slots.h), since it names the agent.
#include "schemas/codec_internal.h"

namespace troupe::schemas {

void put(wire::GpuOffer::Builder out, const GpuOffer& m) {
  const auto& [index, name, uuid, memory_bytes] = m;
  out.setIndex(index);
  out.setName(text_of(name));
  out.setUuid(text_of(uuid));
  out.setMemoryBytes(memory_bytes);
}

void get(wire::GpuOffer::Reader in, GpuOffer& out, Intake& intake) {
  out.index = in.getIndex();
  intake.text(in.getName(), kGpuTextBytesMax, "gpus.name", out.name);
  intake.text(in.getUuid(), kGpuTextBytesMax, "gpus.uuid", out.uuid);
  out.memory_bytes = in.getMemoryBytes();
}

void put(wire::LostGpu::Builder out, const LostGpu& m) {
  const auto& [index, why] = m;
  out.setIndex(index);
  out.setWhy(text_of(sentence(why, kGpuTextBytesMax)));
}

void get(wire::LostGpu::Reader in, LostGpu& out, Intake& intake) {
  out.index = in.getIndex();
  intake.text(in.getWhy(), kGpuTextBytesMax, "why", out.why);
}

void put(wire::AgentHello::Builder out, const AgentHello& m) {
  const auto& [name, version, slots, http_address, numeric_class, process_token, withheld, gpus,
               lost_gpus, slots_kept] = m;
  out.setName(text_of(name));
  out.setVersion(text_of(version));
  out.setSlots(slots);
  out.setHttpAddress(text_of(http_address));
  put(out.initNumericClass(), numeric_class);
  out.setProcessToken(process_token);
  out.setWithheld(text_of(sentence(withheld)));
  put_structs(out.initGpus(size_of(gpus)), gpus);
  put_structs(out.initLostGpus(size_of(lost_gpus)), lost_gpus);
  out.setSlotsKept(slots_kept);
}

void get(wire::AgentHello::Reader in, AgentHello& out, Intake& intake) {
  intake.name(in.getName(), "name", out.name);
  intake.name(in.getVersion(), "version", out.version);
  out.slots = in.getSlots();
  intake.name(in.getHttpAddress(), "http_address", out.http_address);
  get(in.getNumericClass(), out.numeric_class, intake);
  out.process_token = in.getProcessToken();
  intake.text(in.getWithheld(), kTextBytesMax, "withheld", out.withheld);
  intake.structs(in.getGpus(), kGpusMax, "gpus", out.gpus);
  intake.structs(in.getLostGpus(), kGpusMax, "lost_gpus", out.lost_gpus);
  out.slots_kept = in.getSlotsKept();
}

void put(wire::AgentWelcome::Builder out, const AgentWelcome& m) {
  const auto& [agent, coordinator_version] = m;
  out.setAgent(agent);
  out.setCoordinatorVersion(text_of(coordinator_version));
}

void get(wire::AgentWelcome::Reader in, AgentWelcome& out, Intake& intake) {
  out.agent = in.getAgent();
  intake.name(in.getCoordinatorVersion(), "coordinator_version", out.coordinator_version);
}

void put(wire::AgentOffer::Builder out, const AgentOffer& m) {
  const auto& [withheld, lost_gpus, slots_kept] = m;
  out.setWithheld(text_of(sentence(withheld)));
  put_structs(out.initLostGpus(size_of(lost_gpus)), lost_gpus);
  out.setSlotsKept(slots_kept);
}

void get(wire::AgentOffer::Reader in, AgentOffer& out, Intake& intake) {
  intake.text(in.getWithheld(), kTextBytesMax, "withheld", out.withheld);
  intake.structs(in.getLostGpus(), kGpusMax, "lost_gpus", out.lost_gpus);
  out.slots_kept = in.getSlotsKept();
}

void put(wire::MachineInfo::Builder out, const MachineInfo& m) {
  const auto& [name, slots, slots_used, cut, withheld, gpus, gpus_used, lost_gpus] = m;
  out.setName(text_of(name));
  out.setSlots(slots);
  out.setSlotsUsed(slots_used);
  out.setCut(cut);
  out.setWithheld(text_of(sentence(withheld)));
  out.setGpus(gpus);
  out.setGpusUsed(gpus_used);
  put_structs(out.initLostGpus(size_of(lost_gpus)), lost_gpus);
}

void get(wire::MachineInfo::Reader in, MachineInfo& out, Intake& intake) {
  intake.name(in.getName(), "name", out.name);
  out.slots = in.getSlots();
  out.slots_used = in.getSlotsUsed();
  out.cut = in.getCut();
  intake.text(in.getWithheld(), kTextBytesMax, "withheld", out.withheld);
  out.gpus = in.getGpus();
  out.gpus_used = in.getGpusUsed();
  intake.structs(in.getLostGpus(), kGpusMax, "lost_gpus", out.lost_gpus);
}

}  // namespace troupe::schemas
