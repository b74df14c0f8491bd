// SPDX-License-Identifier: Apache-2.0
// troupe gen systemd, slurm, kubernetes: the files of deploy/ for places where a cluster runs.
// Those files are valid as they are; options replace the values that they name below.
#include <CLI/CLI.hpp>
#include <memory>

#include "apps/gen_files.h"
#include "apps/verbs.h"
#include "base/address.h"
#include "cluster/device_list.h"

namespace troupe::apps {
namespace {

// What the files say, and options replace.
constexpr std::string_view kCoordinator = "node1:7700";
constexpr std::string_view kListen = "0.0.0.0:7700";
constexpr std::string_view kMetrics = "0.0.0.0:7701";
constexpr std::string_view kDataRoot = "#DATA_ROOT=/srv/data";
constexpr std::string_view kDevices = "cpu:2";
constexpr std::string_view kSlurmTasks = "#SBATCH --ntasks-per-node=1";
constexpr std::string_view kSlurmCpus = "--cpus-per-task=2";
constexpr std::string_view kPodCpus = "cpu: \"2\"";
constexpr std::string_view kAgentPods = "agents.yaml";
constexpr std::string_view kPodLimits = "limits: {memory: 8Gi}";
constexpr std::string_view kAgentService = "troupe-agent.service";
constexpr std::string_view kNoDevices = "PrivateDevices=yes\n";
constexpr std::string_view kImage = "troupe:latest";
constexpr std::string_view kReplicas = "replicas: 2";
constexpr std::string_view kNodes = "--nodes=2";
constexpr int kMachinesMax = 10'000;

/// Options of all three.
struct PlaceOptions {
  std::string devices{kDevices};
  std::string image{kImage};
  std::string data_root;
  int machines = 2;
  GenTarget target;
};

/// The slots asked for; check_list() has taken their text.
cluster::DeviceList devices_of(const PlaceOptions& options) {
  return cluster::parse_device_list(options.devices).value();
}

/// Of a slot on a GPU: its worker's threads read, issue and push while others decode samples.
constexpr std::size_t kGpuCpus = 4;

/// The files of a folder of deploy/, without its name.
std::vector<MadeFile> place_files(std::string_view folder, const PlaceOptions& options) {
  std::vector<MadeFile> files = files_of(deploy_files(), folder);
  const cluster::DeviceList list = devices_of(options);
  const std::size_t cpus = list.cpu_slots + kGpuCpus * list.gpus.size();
  for (MadeFile& file : files) {
    file.name.erase(0, folder.size());
    file.text = replaced(file.text, kDevices, options.devices);
    file.text = replaced(file.text, kSlurmCpus, fmt::format("--cpus-per-task={}", cpus));
    file.text = replaced(file.text, kPodCpus, fmt::format("cpu: \"{}\"", cpus));
  }
  return files;
}

ExitCode gen_systemd(const PlaceOptions& options, Context& context) {
  std::vector<MadeFile> files = place_files("systemd/", options);
  if (!context.coordinator.empty()) {
    // A line of its own in a file of settings would be a setting of its own.
    const auto address = base::parse_address_within(context.coordinator, base::Reach::network);
    if (!address.ok()) {
      context.console.error(address.status().with_context("--coordinator").text());
      return ExitCode::bad_usage;
    }
    // Where agents come by IPv6, which "[::]" has beside IPv4.
    const char* all = address->host.find(':') == std::string::npos ? "0.0.0.0" : "[::]";
    for (MadeFile& file : files) {
      file.text = replaced(file.text, kCoordinator, context.coordinator);
      file.text = replaced(file.text, kListen, fmt::format("{}:{}", all, address->port));
      file.text = replaced(file.text, kMetrics, fmt::format("{}:7701", all));
    }
  }
  for (MadeFile& file : files) {
    if (!devices_of(options).on_gpus()) break;
    // The driver's device files, and no others; the coordinator needs none.
    if (file.name != kAgentService) continue;
    file.text = replaced(file.text, kNoDevices, "DeviceAllow=char-nvidia* rw\n");
  }
  for (MadeFile& file : files) {
    if (options.data_root.empty()) break;
    file.text = replaced(file.text, kDataRoot, "DATA_ROOT=" + options.data_root);
  }
  return write_made(files, options.target, context);
}

ExitCode gen_slurm(const PlaceOptions& options, Context& context) {
  std::vector<MadeFile> files = place_files("slurm/", options);
  const std::uint32_t gpus = devices_of(options).gpus_needed();
  for (MadeFile& file : files) {
    file.text = replaced(file.text, kNodes, fmt::format("--nodes={}", options.machines));
    if (gpus == 0) continue;
    file.text = replaced(file.text, kSlurmTasks,
                         fmt::format("{}\n#SBATCH --gpus-per-node={}", kSlurmTasks, gpus));
  }
  return write_made(files, options.target, context);
}

ExitCode gen_kubernetes(const PlaceOptions& options, Context& context) {
  std::vector<MadeFile> files = place_files("kubernetes/", options);
  const std::uint32_t gpus = devices_of(options).gpus_needed();
  for (MadeFile& file : files) {
    file.text = replaced(file.text, kImage, options.image);
    file.text = replaced(file.text, kReplicas, fmt::format("replicas: {}", options.machines));
    if (gpus == 0 || file.name != kAgentPods) continue;
    file.text = replaced(file.text, kPodLimits,
                         fmt::format("limits: {{memory: 8Gi, nvidia.com/gpu: {}}}", gpus));
  }
  return write_made(files, options.target, context);
}

/// What is no image's name would mean something else in the file.
std::string check_image(const std::string& text) {
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./:@";
  if (!text.empty() && text.find_first_not_of(kAllowed) == std::string::npos) return "";
  return fmt::format("'{}' is no name of an image, as registry.lab/troupe:1", text);
}

/// What systemd reads as it is written.
std::string check_data_root(const std::string& text) {
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./:@+,=";
  if (text.starts_with('/') && text.find_first_not_of(kAllowed) == std::string::npos) return "";
  return fmt::format("'{}' is no absolute path of letters, digits and -_./:@+,=", text);
}

/// The machines that the files are for may have other GPUs than this one.
std::string check_list(const std::string& text) {
  return cluster::parse_device_list(text).status().text();
}

/// Places that are asked for GPUs by their number, and number what they give from 0.
std::string check_counted_list(const std::string& text) {
  const auto list = cluster::parse_device_list(text);
  if (!list.ok()) return list.status().text();
  if (!list->all_gpus) return "";
  return fmt::format("'{}' does not say how many GPUs; gpu:0,1 asks for two", text);
}

void add_devices(CLI::App& verb, PlaceOptions& options, const std::string& meaning,
                 std::string (*check)(const std::string&)) {
  verb.add_option("--devices", options.devices, meaning)
      ->capture_default_str()
      ->check(check)
      ->type_name("cpu:N,gpu:INDEX,...");
}

void add_machines(CLI::App& verb, PlaceOptions& options, const std::string& name,
                  const std::string& meaning) {
  set_range(verb.add_option(name, options.machines, meaning)->capture_default_str(), 1,
            kMachinesMax);
}

}  // namespace

void add_places_verbs(CLI::App& family, Context& context) {
  const auto options = std::make_shared<PlaceOptions>();
  const auto add = [&](const char* name, const std::string& description,
                       ExitCode (*action)(const PlaceOptions&, Context&)) {
    CLI::App* verb = family.add_subcommand(name, description);
    add_target(verb, options->target)->required();
    set_action(verb, context, [&context, options, action] { return action(*options, context); });
    return verb;
  };
  CLI::App* systemd =
      add("systemd",
          describe("Write services for a coordinator and agents; --coordinator says where it is",
                   {"troupe --coordinator node1:7700 gen systemd -o units"}),
          gen_systemd);
  add_devices(*systemd, *options, "Each agent's slots", check_list);
  systemd->add_option("--data-root", options->data_root, "Jobs read data only below it (anywhere)")
      ->check(check_data_root)
      ->type_name("DIR");

  CLI::App* slurm = add("slurm",
                        describe("Write a script for sbatch that trains one job in an allocation",
                                 {"troupe gen slurm -o batch --nodes 4 --devices cpu:8",
                                  "troupe gen slurm -o batch --devices gpu:0,1,2,3",
                                  "sbatch batch/troupe.sbatch JOB.toml"}),
                        gen_slurm);
  add_devices(*slurm, *options, "Each node's slots", check_counted_list);
  add_machines(*slurm, *options, "--nodes", "Nodes, one agent on each");

  CLI::App* kubernetes =
      add("kubernetes",
          describe("Write manifests for a coordinator and agents",
                   {"troupe gen kubernetes -o manifests --image registry.lab/troupe:1"}),
          gen_kubernetes);
  add_devices(*kubernetes, *options, "Each agent's slots", check_counted_list);
  add_machines(*kubernetes, *options, "--replicas", "Agents");
  kubernetes->add_option("--image", options->image, "The image of the Containerfile")
      ->capture_default_str()
      ->check(check_image)
      ->type_name("NAME");
}

}  // namespace troupe::apps
