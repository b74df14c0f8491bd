// SPDX-License-Identifier: Apache-2.0
// Codecs of the messages of agents, people and links.
#include "schemas/codec_internal.h"

namespace troupe::schemas {
namespace {

/// Inner messages and job specs: bounded by the message's own limit.
constexpr std::size_t kInnerBytesMax = 4'194'304;
/// Sentences of links: their whole messages have 4 KiB.
constexpr std::size_t kLinkTextBytesMax = 2'048;

}  // namespace

void put(wire::LaunchProcess::Builder out, const LaunchProcess& m) {
  const auto& [job, generation, actor, machine, ranks, gpus, job_text, machines, secret,
               credentials, checkpoint, copied] = m;
  out.setJob(text_of(job));
  out.setGeneration(generation);
  put(out.initActor(), actor);
  out.setMachine(machine);
  put_numbers(out.initRanks(size_of(ranks)), ranks);
  put_numbers(out.initGpus(size_of(gpus)), gpus);
  out.setJobText(data_of(job_text));
  out.setMachines(machines);
  out.setSecret(data_of(secret));
  out.setCredentials(text_of(credentials));
  out.setCheckpoint(text_of(checkpoint));
  out.setCopied(copied);
}

void get(wire::LaunchProcess::Reader in, LaunchProcess& out, Intake& intake) {
  intake.name(in.getJob(), "job", out.job);
  out.generation = in.getGeneration();
  get(in.getActor(), out.actor, intake);
  out.machine = in.getMachine();
  intake.numbers(in.getRanks(), kRanksMax, "ranks", out.ranks);
  const bool computes = out.actor.role != Role::parameter_server;
  intake.gpus(in.getGpus(), computes ? out.ranks.size() : in.getGpus().size(), "gpus", out.gpus);
  intake.text(in.getJobText(), kInnerBytesMax, "job_text", out.job_text);
  out.machines = in.getMachines();
  intake.bytes(in.getSecret(), "secret", out.secret);
  intake.text(in.getCredentials(), kInnerBytesMax, "credentials", out.credentials);
  intake.name(in.getCheckpoint(), "checkpoint", out.checkpoint);
  out.copied = in.getCopied();
}

void put(wire::StopProcesses::Builder out, const StopProcesses& m) {
  const auto& [job, generation, grace_ms] = m;
  out.setJob(text_of(job));
  out.setGeneration(generation);
  out.setGraceMs(grace_ms);
}

void get(wire::StopProcesses::Reader in, StopProcesses& out, Intake& intake) {
  intake.name(in.getJob(), "job", out.job);
  out.generation = in.getGeneration();
  out.grace_ms = in.getGraceMs();
}

void put(wire::ProcessExited::Builder out, const ProcessExited& m) {
  const auto& [job, generation, actor, how, clean] = m;
  out.setJob(text_of(job));
  out.setGeneration(generation);
  put(out.initActor(), actor);
  out.setHow(text_of(how));
  out.setClean(clean);
}

void get(wire::ProcessExited::Reader in, ProcessExited& out, Intake& intake) {
  intake.name(in.getJob(), "job", out.job);
  out.generation = in.getGeneration();
  get(in.getActor(), out.actor, intake);
  intake.name(in.getHow(), "how", out.how);
  out.clean = in.getClean();
}

void put(wire::ProcessMessage::Builder out, const ProcessMessage& m) {
  const auto& [job, generation, actor, message] = m;
  out.setJob(text_of(job));
  out.setGeneration(generation);
  put(out.initActor(), actor);
  out.setMessage(data_of(message));
}

void get(wire::ProcessMessage::Reader in, ProcessMessage& out, Intake& intake) {
  intake.name(in.getJob(), "job", out.job);
  out.generation = in.getGeneration();
  get(in.getActor(), out.actor, intake);
  intake.text(in.getMessage(), kInnerBytesMax, "message", out.message);
}

void put(wire::FolderProbe::Builder out, const FolderProbe& m) {
  const auto& [job, generation, path, file, nonce, write] = m;
  out.setJob(text_of(job));
  out.setGeneration(generation);
  out.setPath(text_of(path));
  out.setFile(text_of(file));
  out.setNonce(text_of(nonce));
  out.setWrite(write);
}

void get(wire::FolderProbe::Reader in, FolderProbe& out, Intake& intake) {
  intake.name(in.getJob(), "job", out.job);
  out.generation = in.getGeneration();
  intake.name(in.getPath(), "path", out.path);
  intake.name(in.getFile(), "file", out.file);
  intake.name(in.getNonce(), "nonce", out.nonce);
  out.write = in.getWrite();
}

void put(wire::NamedCheckpoint::Builder out, const NamedCheckpoint& m) {
  const auto& [step, generation] = m;
  out.setStep(step);
  out.setGeneration(generation);
}

void get(wire::NamedCheckpoint::Reader in, NamedCheckpoint& out, Intake&) {
  out.step = in.getStep();
  out.generation = in.getGeneration();
}

void put(wire::FolderProbeResult::Builder out, const FolderProbeResult& m) {
  const auto& [job, generation, code, text, newest, highest] = m;
  out.setJob(text_of(job));
  out.setGeneration(generation);
  out.setCode(code_of(code));
  out.setText(text_of(sentence(text)));
  put_structs(out.initNewest(size_of(newest)), newest);
  out.setHighestGeneration(highest);
}

void get(wire::FolderProbeResult::Reader in, FolderProbeResult& out, Intake& intake) {
  intake.name(in.getJob(), "job", out.job);
  out.generation = in.getGeneration();
  intake.code(in.getCode(), out.code);
  intake.text(in.getText(), kTextBytesMax, "text", out.text);
  intake.structs(in.getNewest(), kNamedCheckpointsMax, "newest", out.newest);
  out.highest_generation = in.getHighestGeneration();
}

void put(wire::JobSubmit::Builder out, const JobSubmit& m) {
  const auto& [id, job_text, request] = m;
  out.setId(text_of(id));
  out.setJobText(data_of(job_text));
  out.setRequest(text_of(request));
}

void get(wire::JobSubmit::Reader in, JobSubmit& out, Intake& intake) {
  intake.name(in.getId(), "id", out.id);
  intake.text(in.getJobText(), kInnerBytesMax, "job_text", out.job_text);
  intake.name(in.getRequest(), "request", out.request);
}

void put(wire::JobSubmitted::Builder out, const JobSubmitted& m) {
  const auto& [id, code, text] = m;
  out.setId(text_of(id));
  out.setCode(code_of(code));
  out.setText(text_of(sentence(text)));
}

void get(wire::JobSubmitted::Reader in, JobSubmitted& out, Intake& intake) {
  intake.name(in.getId(), "id", out.id);
  intake.code(in.getCode(), out.code);
  intake.text(in.getText(), kTextBytesMax, "text", out.text);
}

void put(wire::JobQuery::Builder out, const JobQuery& m) {
  const auto& [id, cluster] = m;
  out.setId(text_of(id));
  out.setCluster(cluster);
}

void get(wire::JobQuery::Reader in, JobQuery& out, Intake& intake) {
  intake.name(in.getId(), "id", out.id);
  out.cluster = in.getCluster();
}

void put(wire::JobInfo::Builder out, const JobInfo& m) {
  const auto& [id, name, phase, step, steps_total, samples, loss, accuracy, samples_per_second,
               checkpoint, text, age_ms, number, no_room, done_before] = m;
  out.setId(text_of(id));
  out.setName(text_of(name));
  out.setPhase(choice_of<wire::JobPhase>(phase));
  out.setStep(step);
  out.setStepsTotal(steps_total);
  out.setSamples(samples);
  out.setLoss(loss);
  out.setAccuracy(accuracy);
  out.setSamplesPerSecond(samples_per_second);
  out.setCheckpoint(text_of(sentence(checkpoint, kNameBytesMax)));
  out.setText(text_of(sentence(text)));
  out.setAgeMs(age_ms);
  out.setNumber(number);
  out.setNoRoom(no_room);
  out.setDoneBefore(done_before);
}

void get(wire::JobInfo::Reader in, JobInfo& out, Intake& intake) {
  intake.name(in.getId(), "id", out.id);
  intake.name(in.getName(), "name", out.name);
  intake.choice(in.getPhase(), JobPhase::stopped, "phase", out.phase);
  out.step = in.getStep();
  out.steps_total = in.getStepsTotal();
  out.samples = in.getSamples();
  out.loss = in.getLoss();
  out.accuracy = in.getAccuracy();
  out.samples_per_second = in.getSamplesPerSecond();
  intake.name(in.getCheckpoint(), "checkpoint", out.checkpoint);
  intake.text(in.getText(), kTextBytesMax, "text", out.text);
  out.age_ms = in.getAgeMs();
  out.number = in.getNumber();
  out.no_room = in.getNoRoom();
  out.done_before = in.getDoneBefore();
}

void put(wire::RankInfo::Builder out, const RankInfo& m) {
  const auto& [job, rank, machine, phase, step, samples_per_second, heard_ms, gpu] = m;
  out.setJob(text_of(job));
  out.setRank(rank);
  out.setMachine(text_of(machine));
  out.setPhase(choice_of<wire::RankPhase>(phase));
  out.setStep(step);
  out.setSamplesPerSecond(samples_per_second);
  out.setHeardMs(heard_ms);
  if (gpu) out.initGpu().setValue(*gpu);
}

void get(wire::RankInfo::Reader in, RankInfo& out, Intake& intake) {
  intake.name(in.getJob(), "job", out.job);
  out.rank = in.getRank();
  intake.name(in.getMachine(), "machine", out.machine);
  intake.choice(in.getPhase(), RankPhase::done, "phase", out.phase);
  out.step = in.getStep();
  out.samples_per_second = in.getSamplesPerSecond();
  out.heard_ms = in.getHeardMs();
  if (!in.hasGpu()) return;
  const std::uint64_t gpu = in.getGpu().getValue();
  if (gpu >= kGpusMax) return intake.fail("gpu", fmt::format("is {}", gpu));
  out.gpu = static_cast<std::uint32_t>(gpu);
}

void put(wire::JobList::Builder out, const JobList& m) {
  const auto& [code, text, jobs, machines, ranks] = m;
  out.setCode(code_of(code));
  out.setText(text_of(sentence(text)));
  put_structs(out.initJobs(size_of(jobs)), jobs);
  put_structs(out.initMachines(size_of(machines)), machines);
  put_structs(out.initRanks(size_of(ranks)), ranks);
}

void get(wire::JobList::Reader in, JobList& out, Intake& intake) {
  intake.code(in.getCode(), out.code);
  intake.text(in.getText(), kTextBytesMax, "text", out.text);
  intake.structs(in.getJobs(), kJobsMax, "jobs", out.jobs);
  intake.structs(in.getMachines(), kMachinesListed, "machines", out.machines);
  intake.structs(in.getRanks(), kRanksListed, "ranks", out.ranks);
}

void put(wire::JobStop::Builder out, const JobStop& m) {
  const auto& [id, checkpoint] = m;
  out.setId(text_of(id));
  out.setCheckpoint(checkpoint);
}

void get(wire::JobStop::Reader in, JobStop& out, Intake& intake) {
  intake.name(in.getId(), "id", out.id);
  out.checkpoint = in.getCheckpoint();
}

void put(wire::PersonHello::Builder out, const PersonHello& m) {
  const auto& [token] = m;
  out.setToken(text_of(token));
}

void get(wire::PersonHello::Reader in, PersonHello& out, Intake& intake) {
  intake.name(in.getToken(), "token", out.token);
}

void put(wire::DenyList::Builder out, const DenyList& m) {
  const auto& [pem, code, text] = m;
  out.setPem(text_of(pem));
  out.setCode(code_of(code));
  out.setText(text_of(sentence(text)));
}

void get(wire::DenyList::Reader in, DenyList& out, Intake& intake) {
  intake.text(in.getPem(), kInnerBytesMax, "pem", out.pem);
  intake.code(in.getCode(), out.code);
  intake.text(in.getText(), kTextBytesMax, "text", out.text);
}

void put(wire::Hello::Builder out, const Hello& m) {
  const auto& [protocol, job, generation, actor, name, channel, token, lane, lanes, resume, nonce] =
      m;
  out.setProtocol(protocol);
  out.setJob(text_of(job));
  out.setGeneration(generation);
  put(out.initActor(), actor);
  out.setName(text_of(name));
  out.setChannel(choice_of<wire::Channel>(channel));
  out.setToken(token);
  out.setLane(lane);
  out.setLanes(lanes);
  out.setResume(resume);
  out.setNonce(data_of(nonce));
}

void get(wire::Hello::Reader in, Hello& out, Intake& intake) {
  out.protocol = in.getProtocol();
  intake.name(in.getJob(), "job", out.job);
  out.generation = in.getGeneration();
  get(in.getActor(), out.actor, intake);
  intake.name(in.getName(), "name", out.name);
  intake.choice(in.getChannel(), Channel::data, "channel", out.channel);
  out.token = in.getToken();
  out.lane = in.getLane();
  out.lanes = in.getLanes();
  out.resume = in.getResume();
  if (in.hasNonce()) intake.bytes(in.getNonce(), "nonce", out.nonce);
  if (out.lane >= out.lanes || (out.lane == 0) != (out.channel == Channel::control)) {
    intake.fail("lane", fmt::format("is {} of {}", out.lane, out.lanes));
  }
}

void put(wire::HelloReply::Builder out, const HelloReply& m) {
  const auto& [protocol, code, text, proof] = m;
  out.setProtocol(protocol);
  out.setCode(code_of(code));
  out.setText(text_of(sentence(text, kLinkTextBytesMax)));
  out.setProof(data_of(proof));
}

void get(wire::HelloReply::Reader in, HelloReply& out, Intake& intake) {
  out.protocol = in.getProtocol();
  intake.code(in.getCode(), out.code);
  intake.text(in.getText(), kTextBytesMax, "text", out.text);
  if (in.hasProof()) intake.bytes(in.getProof(), "proof", out.proof);
}

void put(wire::Ping::Builder out, const Ping& m) {
  const auto& [number] = m;
  out.setNumber(number);
}

void get(wire::Ping::Reader in, Ping& out, Intake&) {
  out.number = in.getNumber();
}

void put(wire::Pong::Builder out, const Pong& m) {
  const auto& [number] = m;
  out.setNumber(number);
}

void get(wire::Pong::Reader in, Pong& out, Intake&) {
  out.number = in.getNumber();
}

void put(wire::Goodbye::Builder out, const Goodbye& m) {
  const auto& [text] = m;
  out.setText(text_of(sentence(text, kLinkTextBytesMax)));
}

void get(wire::Goodbye::Reader in, Goodbye& out, Intake& intake) {
  intake.text(in.getText(), kTextBytesMax, "text", out.text);
}

void put(wire::Challenge::Builder out, const Challenge& m) {
  const auto& [nonce] = m;
  out.setNonce(data_of(nonce));
}

void get(wire::Challenge::Reader in, Challenge& out, Intake& intake) {
  intake.bytes(in.getNonce(), "nonce", out.nonce);
}

void put(wire::Proof::Builder out, const Proof& m) {
  const auto& [proof] = m;
  out.setProof(data_of(proof));
}

void get(wire::Proof::Reader in, Proof& out, Intake& intake) {
  intake.bytes(in.getProof(), "proof", out.proof);
}

}  // namespace troupe::schemas
