// SPDX-License-Identifier: Apache-2.0
// checkpoint.dir of a run before it begins: one folder or many, and what machines hold in theirs.
#include "control/checkpoint_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "schemas/manifest.h"
#include "tests/control/folder_world.h"
#include "tests/support/catch.h"

namespace troupe::control {
namespace {

using base::Errc;
using schemas::CheckpointReport;
using schemas::Role;
using testing::all_of;
using testing::sent;
using testing::separate;
using Effects = testing::FolderEffects;
using World = testing::FolderWorld;

/// Probes that are removed, by machine; 3: the coordinator's.
std::set<std::uint32_t> removed(const Effects& effects) {
  std::set<std::uint32_t> machines;
  for (const auto& [machine, probe] : sent<schemas::FolderProbe>(effects)) {
    if (probe.write && probe.nonce.empty()) machines.insert(machine);
  }
  for (const ProbeFolder& own : all_of<ProbeFolder>(effects)) {
    if (own.probe.write && own.probe.nonce.empty() && !own.choose) machines.insert(3);
  }
  return machines;
}

TEST_CASE("who sees the coordinator's folder needs no copies", "[checkpoint_folder]") {
  World world;
  world.folder.probe();
  Effects effects = world.take();
  REQUIRE(all_of<ProbeFolder>(effects).size() == 1);
  const ProbeFolder written = all_of<ProbeFolder>(effects)[0];
  CHECK(written.choose);
  CHECK(written.probe.write);
  CHECK(sent<schemas::FolderProbe>(effects).empty());
  CHECK(world.folder.waited_for() ==
        std::vector<std::string>{"the coordinator's look at checkpoint.dir /out"});
  effects = world.answer(3);
  const auto read = sent<schemas::FolderProbe>(effects);
  REQUIRE(read.size() == 2);  // machine a has no server, and nothing to do with the folder
  CHECK((read[0].first == 1 && read[1].first == 2));
  for (const auto& [machine, probe] : read) {
    CHECK_FALSE(probe.write);
    CHECK(probe.file == written.probe.file);
    CHECK(probe.nonce == "nonce");
    CHECK(probe.path == "/out");
  }
  CHECK(world.answer(0).empty());
  world.answer(1);
  CHECK_FALSE(world.folder.known());
  effects = world.answer(2);
  CHECK(world.folder.known());
  CHECK_FALSE(world.folder.copied());
  CHECK(removed(effects) == std::set<std::uint32_t>{3});

  world.folder.begin(world.found(), 4);
  CHECK(world.folder.placed());
  CHECK(world.take().empty());
  CHECK(world.folder.take(world.report(600)).has_value());
  CHECK(world.take().empty());
}

TEST_CASE("who does not see it has a folder of its own, and shows that it can write there",
          "[checkpoint_folder]") {
  const std::uint32_t other = GENERATE(1u, 2u);
  const Errc how = GENERATE(Errc::not_found, Errc::failed_precondition);
  World world;
  world.folder.probe();
  world.answer(3);
  Effects effects;
  for (const std::uint32_t each : {1u, 2u}) {
    effects = world.answer(each, each == other ? how : Errc::ok);
  }
  CHECK(world.fault.ok());
  const std::string name = other == 1 ? "machine 'b'" : "machine 'c'";
  const auto tried = sent<schemas::FolderProbe>(effects);
  REQUIRE(tried.size() == 1);
  CHECK(tried[0].first == other);
  CHECK(tried[0].second.write);
  CHECK(tried[0].second.file == ".probe-x-g3-m" + std::to_string(other));  // others may share it
  CHECK_FALSE(world.folder.known());
  SECTION("it can") {
    // Nor does the coordinator see the machine's.
    const auto compared = all_of<ProbeFolder>(world.answer(other));
    REQUIRE(compared.size() == 1);
    CHECK(compared[0].probe.file == tried[0].second.file);
    CHECK(compared[0].probe.nonce == "nonce");
    CHECK_FALSE((compared[0].probe.write || compared[0].choose));
    effects = world.answer(3, how);
    REQUIRE(all_of<Note>(effects).size() == 1);
    CHECK_THAT(all_of<Note>(effects)[0].text, Catch::Contains(name + " does not see the coordin"));
    CHECK(removed(effects) == std::set<std::uint32_t>{other, 3});
    REQUIRE(all_of<HoldFolder>(effects).size() == 1);
    CHECK(all_of<HoldFolder>(effects)[0].folder == "/out");
    world.answer(3);  // its file is removed, which is no answer to this question
    CHECK_FALSE(world.folder.known());
    world.held();
    CHECK(world.folder.known());
    CHECK(world.folder.copied());
    // Only it gets files, and only its own are cleared.
    world.folder.begin(world.found(), 4);
    const auto placed = sent<schemas::PlaceCheckpoint>(world.take());
    REQUIRE(placed.size() == 1);
    CHECK(placed[0].first == other);
    CHECK(world.folder.take(other, schemas::CheckpointPlaced{"x", 4}).ok());
    world.take();
    world.folder.take(world.report(600));
    world.take();
    CHECK(world.folder.take(CheckpointCollected{"x", 4, 600, 4, {}}).has_value());
    const auto dropped = sent<schemas::DropCheckpoint>(world.take());
    REQUIRE(dropped.size() == 1);
    CHECK(dropped[0].first == other);
    CHECK(dropped[0].second.older);
    CHECK(dropped[0].second.checkpoint == "step-600-g4");
  }
  SECTION("it cannot") {
    world.answer(other, Errc::permission_denied);
    CHECK(world.fault.text() == "checkpoint.dir /out: " + name + " cannot write there: no");
    world.folder.end();
    CHECK(removed(world.take()) == std::set<std::uint32_t>{other, 3});
  }
}

TEST_CASE("a folder that cannot be looked into ends the job", "[checkpoint_folder]") {
  World world;
  world.folder.probe();
  SECTION("beside the coordinator") {
    world.answer(3, Errc::permission_denied);
    CHECK(world.fault.text() == "checkpoint.dir /out: the coordinator cannot write there: no");
  }
  SECTION("on a machine") {
    world.answer(3);
    world.answer(2, Errc::permission_denied);
    CHECK(world.fault.text() == "checkpoint.dir /out: machine 'c' cannot look there: no");
  }
  CHECK(world.fault.code() == Errc::failed_precondition);
}

TEST_CASE("a machine that saw the coordinator's file too late has no folder of its own",
          "[checkpoint_folder]") {
  World world;
  world.folder.probe();
  world.answer(3);
  world.answer(1, Errc::not_found);
  world.answer(2, Errc::not_found);
  world.answer(2);
  auto compared = all_of<ProbeFolder>(world.answer(1));
  REQUIRE(compared.size() == 1);  // one after the other
  CHECK(compared[0].probe.file == ".probe-x-g3-m1");
  compared = all_of<ProbeFolder>(world.answer(3));
  REQUIRE(compared.size() == 1);
  CHECK(compared[0].probe.file == ".probe-x-g3-m2");
  SECTION("one of two") {
    const Effects effects = world.answer(3, Errc::not_found);
    CHECK_THAT(all_of<Note>(effects)[0].text, Catch::Contains(": machine 'c' does not see"));
    world.held();
    CHECK(world.folder.copied());
    // Nothing is removed where the other writes.
    world.folder.begin(world.found(""), 4);
    world.folder.take(world.report(600));
    world.folder.take(CheckpointCollected{"x", 4, 600, 4, {}});
    const auto dropped = sent<schemas::DropCheckpoint>(world.take());
    REQUIRE(dropped.size() == 1);
    CHECK(dropped[0].first == 2);
  }
  SECTION("both: then all share one folder, and no copy is kept") {
    const Effects effects = world.answer(3);
    CHECK(all_of<Note>(effects).empty());
    CHECK(all_of<HoldFolder>(effects).empty());
    CHECK(removed(effects) == std::set<std::uint32_t>{1, 2, 3});
    CHECK(world.folder.known());
    CHECK_FALSE(world.folder.copied());
  }
  SECTION("the coordinator cannot tell") {
    world.answer(3, Errc::permission_denied);
    CHECK(world.fault.text() == "checkpoint.dir /out: the coordinator cannot look there: no");
  }
}

TEST_CASE("what machines hold beyond the coordinator is collected before a run begins",
          "[checkpoint_folder]") {
  World world;
  Effects effects = separate(world, 500, 600, 400);
  CHECK_FALSE(world.folder.known());
  CHECK(world.folder.collecting());
  CHECK(world.folder.waited_for() ==
        std::vector<std::string>{"the copy of what its machines hold"});
  auto wanted = all_of<CollectCheckpoint>(effects);
  REQUIRE(wanted.size() == 1);
  CHECK(wanted[0].run == 3);
  CHECK(wanted[0].step == 600);
  CHECK(wanted[0].generation == 2);
  REQUIRE(wanted[0].gathered_for.has_value());  // it may be another job's: nothing goes for it
  CHECK(wanted[0].gathered_for->name == "mine");
  CHECK(wanted[0].of_manifest == std::vector<PeerId>{11, 12});  // whoever has it
  CHECK(wanted[0].of_shard.empty());
  CHECK(world.folder.highest() == 2);
  SECTION("it is whole") {
    CHECK(all_of<CollectCheckpoint>(world.gathered(600)).empty());
    CHECK(world.folder.known());
  }
  SECTION("it is of no use, so the one before it is tried, and then none") {
    const base::Status foreign(Errc::failed_precondition, "is of another job");
    effects = world.gathered(600, foreign);
    CHECK_THAT(all_of<Note>(effects)[0].text,
               Catch::Contains("step-600-g2 is not collected: is of another"));
    wanted = all_of<CollectCheckpoint>(effects);
    REQUIRE(wanted.size() == 1);
    CHECK(wanted[0].step == 500);
    world.gathered(600);  // late
    CHECK_FALSE(world.folder.known());
    world.gathered(500, foreign);
    CHECK(world.folder.known());
  }
  SECTION("it may be whole, but cannot be had now") {
    for (const Errc code : {Errc::resource_exhausted, Errc::unavailable, Errc::deadline_exceeded,
                            Errc::permission_denied}) {
      World other;
      separate(other, 500, 600, 400);
      CHECK(all_of<CollectCheckpoint>(other.gathered(600, {code, "no room"})).empty());
      CHECK_FALSE(other.folder.known());
      CHECK(other.fault.code() == code);
      CHECK_THAT(other.fault.text(),
                 Catch::Contains("/out: step-600-g2 is on the job's machines") &&
                     Catch::Contains("no room"));
    }
  }
  SECTION("the job is stopped meanwhile") {
    world.folder.end();
    CHECK(all_of<EndCollecting>(world.take()).size() == 1);
    world.folder.take(CheckpointCollected{"x", 3, 600, 2, {}});
    CHECK(world.take().empty());
    world.folder.let_go();
    CHECK(all_of<LetGoOfFolder>(world.take()).size() == 1);
    world.folder.let_go();
    CHECK(world.take().empty());
  }
}

TEST_CASE("what the coordinator has whole itself is not collected", "[checkpoint_folder]") {
  World world;
  CHECK(all_of<CollectCheckpoint>(separate(world, 600, 500, 600)).empty());
  CHECK(world.folder.known());
}

TEST_CASE("what turns out damaged at the coordinator is collected once more, and once only",
          "[checkpoint_folder]") {
  World world;
  separate(world, 600, 500, 600);
  REQUIRE(world.folder.known());
  world.folder.look_again();
  CHECK_FALSE(world.folder.known());
  CHECK(all_of<HoldFolder>(world.take()).size() == 1);
  auto wanted = all_of<CollectCheckpoint>(world.held(400));  // what is left
  REQUIRE(wanted.size() == 1);
  CHECK(wanted[0].step == 600);
  world.gathered(600);
  REQUIRE(world.folder.known());
  world.folder.look_again();
  world.take();
  wanted = all_of<CollectCheckpoint>(world.held(400));
  REQUIRE(wanted.size() == 1);
  CHECK(wanted[0].step == 500);
}

TEST_CASE("a folder of copies is one job's", "[checkpoint_folder]") {
  World other;
  other.folder.probe();
  other.answer(3);
  for (const Errc code : {Errc::not_found, Errc::ok}) {
    for (const std::uint32_t machine : {1u, 2u}) other.answer(machine, code);
  }
  for (int i = 0; i < 2; ++i) other.answer(3, Errc::not_found);
  CHECK(other.folder.waited_for() ==
        std::vector<std::string>{"the coordinator's look at checkpoint.dir /out"});
  other.held(0, {Errc::already_exists, "/out is in use by another process"});
  CHECK(other.fault.text() ==
        "checkpoint.dir /out: another job keeps its checkpoints there, perhaps by another path");
}

TEST_CASE("a generation that no run can have had is refused", "[checkpoint_folder]") {
  World world;
  world.folder.probe();
  world.answer(3);
  schemas::FolderProbeResult result{"x", 3, Errc::ok, "", {}, 1ULL << 32};
  CHECK(world.folder.take(1, result).ok());
  result.highest_generation = GENERATE(as<std::uint64_t>(), (2ULL << 32) + 1, ~0ULL);
  CHECK(world.folder.take(2, result).text() ==
        fmt::format("checkpoint.dir /out: machine 'c' has a checkpoint of generation {} there, far "
                    "above the highest that is known (4294967296); is it of this job?",
                    result.highest_generation));
}

}  // namespace
}  // namespace troupe::control
