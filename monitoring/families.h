// SPDX-License-Identifier: Apache-2.0
// The one list of all metric families: `troupe metrics` prints it, code names its rows by
// family("..."), and a name that is not in it does not compile. Base units, `_total` on counters;
// never a step, a layer, a file or an error text as label. Constants; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace troupe::monitoring {

/// How Prometheus reads the samples of a family.
enum class MetricType : std::uint8_t { counter, gauge, histogram };

/// Upper bounds of a histogram's buckets, 14 of them.
enum class Buckets : std::uint8_t {
  none,
  requests,     ///< powers of two: 50 us to 0.4 s
  steps,        ///< powers of two: 1 ms to 8 s
  rounds,       ///< powers of two: 0.2 ms to 1.6 s
  checkpoints,  ///< powers of two: 0.1 s to 13 min
  staleness     ///< 0 to 8 steps one by one, then powers of two to 256
};

/// A family: all series of one name.
struct Family {
  std::string_view name;
  MetricType type = MetricType::counter;
  std::string_view help;
  std::array<std::string_view, 4> labels = {};  ///< names of the labels; empty behind the last
  Buckets buckets = Buckets::none;

  constexpr std::size_t label_count() const {
    std::size_t count = 0;
    while (count < labels.size() && !labels[count].empty()) ++count;
    return count;
  }
};

inline constexpr auto kCounter = MetricType::counter;
inline constexpr auto kGauge = MetricType::gauge;
inline constexpr auto kHistogram = MetricType::histogram;

inline constexpr std::array kFamilies = {
    // Every process.
    Family{"process_cpu_seconds_total", kCounter, "User and system time spent."},
    Family{"process_max_fds", kGauge, "Most file descriptors that may be open."},
    Family{"process_open_fds", kGauge, "File descriptors open."},
    Family{"process_resident_memory_bytes", kGauge, "Memory present in RAM."},
    Family{"process_start_time_seconds", kGauge, "Start of the process, Unix time."},
    Family{"process_threads", kGauge, "Threads of the process."},
    Family{"process_virtual_memory_bytes", kGauge, "Virtual address space."},
    Family{"troupe_cgroup_memory_limit_bytes", kGauge,
           "Memory that the process's control group may use; absent without a limit."},
    Family{"troupe_cgroup_memory_used_bytes", kGauge,
           "Memory that this group uses, without what the system can drop at once."},
    Family{"troupe_build_info",
           kGauge,
           "Always 1; the labels say what runs.",
           {"version", "build", "role"}},
    Family{"troupe_log_messages_total", kCounter, "Log lines written.", {"level"}},
    Family{"troupe_http_requests_total", kCounter, "HTTP requests answered.", {"route", "code"}},
    Family{"troupe_http_request_seconds",
           kHistogram,
           "Time to make an HTTP answer.",
           {"route"},
           Buckets::requests},

    // Agents, of their machine.
    Family{"troupe_certificate_expiry_timestamp_seconds", kGauge,
           "End of the program's certificate, Unix time; under TLS."},
    Family{"troupe_machine_load_average", kGauge,
           "Tasks that run or wait to run, mean of the last minute."},
    Family{"troupe_machine_processors", kGauge, "Processors that the agent may use."},
    Family{"troupe_machine_memory_bytes", kGauge, "Memory of the machine."},
    Family{"troupe_machine_memory_available_bytes", kGauge,
           "Memory that programs can have without swapping."},
    Family{"troupe_machine_time_seconds", kGauge,
           "The machine's clock when it was read, Unix time."},

    // Agents, of the GPUs that they offer; gpu is the number by which CUDA knows it. What a device
    // does not tell is absent.
    Family{"troupe_device_in_service",
           kGauge,
           "1 while the GPU may be used, 0 when it is lost, silent or has uncorrectable errors.",
           {"gpu", "uuid", "model"}},
    Family{"troupe_device_utilization_ratio",
           kGauge,
           "Share of the last second or less in which a kernel ran.",
           {"gpu", "uuid", "model"}},
    Family{"troupe_device_memory_utilization_ratio",
           kGauge,
           "Share of that time in which its memory was read or written.",
           {"gpu", "uuid", "model"}},
    Family{"troupe_device_memory_used_bytes",
           kGauge,
           "Memory in use by all programs and the driver.",
           {"gpu", "uuid", "model"}},
    Family{"troupe_device_memory_total_bytes",
           kGauge,
           "Memory of the GPU, or of the slice.",
           {"gpu", "uuid", "model"}},
    Family{"troupe_device_power_watts", kGauge, "Power drawn.", {"gpu", "uuid", "model"}},
    Family{"troupe_device_temperature_celsius",
           kGauge,
           "Temperature of the die.",
           {"gpu", "uuid", "model"}},
    Family{"troupe_device_sm_clock_hertz",
           kGauge,
           "Clock of the multiprocessors.",
           {"gpu", "uuid", "model"}},
    Family{"troupe_device_uncorrectable_errors_total",
           kCounter,
           "Errors of memory that lost data, since the last reset.",
           {"gpu", "uuid", "model"}},
    Family{"troupe_device_correctable_errors_total",
           kCounter,
           "Errors of memory that were corrected, since the last reset.",
           {"gpu", "uuid", "model"}},
    Family{"troupe_device_row_remap_failed",
           kGauge,
           "1 when a bad row of memory has ever found no spare one.",
           {"gpu", "uuid", "model"}},
    Family{"troupe_device_row_remap_pending",
           kGauge,
           "1 while a bad row of memory waits for a reset, which gives it a spare one.",
           {"gpu", "uuid", "model"}},
    Family{"troupe_device_throttled",
           kGauge,
           "1 while the reason lowers the GPU's clocks, by the names of nvidia-smi.",
           {"gpu", "uuid", "model", "reason"}},
    Family{"troupe_device_power_violation_seconds_total",
           kCounter,
           "Time in which the limit of power held clocks down.",
           {"gpu", "uuid", "model"}},
    Family{"troupe_device_thermal_violation_seconds_total",
           kCounter,
           "Time in which heat held clocks down.",
           {"gpu", "uuid", "model"}},
    Family{"troupe_device_xid_errors_total",
           kCounter,
           "Errors of the GPU that the driver has reported to the agent, by NVIDIA's numbers.",
           {"gpu", "uuid", "model", "xid"}},

    // Links.
    Family{"troupe_net_messages_total", kCounter, "Frames over links.", {"direction"}},
    Family{"troupe_net_bytes_total", kCounter, "Bytes of those frames.", {"direction"}},
    Family{"troupe_net_recoveries_total",
           kCounter,
           "Cuts healed, frames sent again, received again.",
           {"kind"}},
    Family{"troupe_net_peers", kGauge, "Links alive."},
    Family{"troupe_net_queued_bytes", kGauge, "Bytes waiting or unacknowledged."},
    Family{"troupe_net_own_pauses_total", kCounter,
           "Times that this process stood still, which is no silence of its peers."},

    // Workers.
    Family{"troupe_worker_steps_total", kCounter, "Steps committed.", {"rank"}},
    Family{"troupe_worker_samples_total", kCounter, "Training samples used.", {"rank"}},
    Family{"troupe_worker_step_seconds",
           kHistogram,
           "From a step's wait for its batch until it is pushed and the step before has ended.",
           {"rank"},
           Buckets::steps},
    Family{"troupe_worker_phase_seconds_total",
           kCounter,
           "The rank's thread: data = waiting for a batch, issue = handing a step to the engine, "
           "compute = waiting for gradients, pull = waiting for weights (and others' gradients, if "
           "GPUs add them), eval = scoring, "
           "idle = the rest. Together the time since training began.",
           {"rank", "phase"}},
    Family{"troupe_worker_global_step",
           kGauge,
           "Steps of the job done, resumed ones included.",
           {"rank"}},
    Family{"troupe_worker_last_step_timestamp_seconds",
           kGauge,
           "Last step committed, Unix time; absent before the first.",
           {"rank"}},
    Family{"troupe_worker_device_info",
           kGauge,
           "Always 1, of ranks on GPUs; device: by its place among those that the process sees.",
           {"rank", "device", "uuid"}},
    Family{"troupe_worker_epoch", kGauge, "Epoch in progress, from 0.", {"rank"}},
    Family{"troupe_worker_loss", kGauge, "Mean loss per sample at the last report.", {"rank"}},
    Family{
        "troupe_worker_learning_rate", kGauge, "Learning rate of the step in progress.", {"rank"}},

    // Device servers (level 1) and parameter servers (level 2).
    Family{"troupe_kv_requests_total",
           kCounter,
           "Pushes and pulls by their answer.",
           {"level", "op", "result"}},
    Family{"troupe_kv_bytes_total", kCounter, "Tensor bytes pushed and pulled.", {"level", "op"}},
    Family{"troupe_kv_additions_total", kCounter, "Additions of gradients.", {"level"}},
    Family{"troupe_kv_updates_total", kCounter, "Runs of the updater, one slice each.", {"level"}},
    Family{"troupe_kv_request_seconds",
           kHistogram,
           "From a request's turn at a server to its answer.",
           {"level", "op"},
           Buckets::requests},
    Family{"troupe_kv_round_seconds",
           kHistogram,
           "From the first to the last push of a slice's step; of sequential tiers.",
           {"level"},
           Buckets::rounds},
    Family{"troupe_kv_aggregate_seconds",
           kHistogram,
           "Time of one addition of gradients.",
           {"level"},
           Buckets::requests},
    Family{"troupe_kv_update_seconds",
           kHistogram,
           "Time of one run of the updater.",
           {"level"},
           Buckets::requests},
    Family{"troupe_kv_pending_pushes", kGauge, "Pushes received and not answered.", {"level"}},
    Family{"troupe_kv_keys", kGauge, "Keys of which the servers hold slices.", {"level"}},
    Family{"troupe_kv_store_bytes",
           kGauge,
           "Weights held, at level 2 with the optimizer's state.",
           {"level"}},
    Family{"troupe_kv_version", kGauge, "Lowest version of any slice held.", {"level"}},
    Family{"troupe_kv_staleness_steps",
           kHistogram,
           "t-1 minus the lowest step applied of any member, at each reply.",
           {"level"},
           Buckets::staleness},
    Family{"troupe_kv_staleness_limit_steps",
           kGauge,
           "max_staleness of an eventual tier; absent without a bound.",
           {"level"}},
    Family{"troupe_kv_gradient_norm", kGauge,
           "Norm of all gradients of a step, means over samples, before clip_norm cuts it; of jobs "
           "in f16 or with clip_norm."},
    Family{"troupe_kv_loss_scale", kGauge,
           "What losses are multiplied with in the step; of jobs in f16."},
    Family{"troupe_kv_dropped_steps_total", kCounter,
           "Steps that do not count, since a gradient went beyond f16."},

    // Coordinator.
    Family{"troupe_coordinator_jobs", kGauge, "Jobs by state.", {"state"}},
    Family{"troupe_coordinator_jobs_finished_total",
           kCounter,
           "Jobs ended, by their final state.",
           {"result"}},
    Family{"troupe_coordinator_job_queue_seconds",
           kHistogram,
           "From a job's submission to its admission.",
           {},
           Buckets::checkpoints},
    Family{"troupe_coordinator_nodes", kGauge, "Agents and processes by state.", {"role", "state"}},
    Family{"troupe_coordinator_devices", kGauge, "Worker slots of all agents.", {"kind", "state"}},
    Family{"troupe_job_step", kGauge, "Lowest step that every rank has reported.", {"train_job"}},
    Family{"troupe_job_progress_ratio", kGauge, "Steps done of all steps.", {"train_job"}},
    Family{
        "troupe_job_samples_total", kCounter, "Training samples used by all ranks.", {"train_job"}},
    Family{"troupe_job_loss",
           kGauge,
           "Mean loss per sample at the last report.",
           {"train_job", "split"}},
    Family{"troupe_job_accuracy_ratio",
           kGauge,
           "Share of samples classified rightly.",
           {"train_job", "split"}},
    Family{"troupe_job_last_checkpoint_timestamp_seconds",
           kGauge,
           "Last complete checkpoint, Unix time.",
           {"train_job"}},
    Family{"troupe_job_goodput_ratio",
           kGauge,
           "Of the time that the job held its machines, the share of the steps that count.",
           {"train_job"}},
    Family{"troupe_job_resumes_total",
           kCounter,
           "Runs of the job after its first one.",
           {"train_job"}},
    Family{"troupe_job_failed", kGauge, "1 when the job has failed, else 0.", {"train_job"}},
    Family{"troupe_job_missing_ranks",
           kGauge,
           "1 for each rank that has long been waited for; absent while none is.",
           {"train_job", "rank"}},

    // Checkpoints, where they are written.
    Family{"troupe_checkpoint_seconds",
           kHistogram,
           "Time to write and sync a shard's file or the manifest.",
           {"op"},
           Buckets::checkpoints},
    Family{"troupe_checkpoint_bytes_total", kCounter, "Bytes written and synced.", {"op"}},
    Family{"troupe_checkpoint_failures_total", kCounter, "Files that were not written.", {"op"}},

    // Engine.
    Family{"troupe_engine_ops_total",
           kCounter,
           "Operations by lane and by how they ended.",
           {"engine", "class", "result"}},
    Family{"troupe_engine_graph_ops_total",
           kCounter,
           "Of the operations done on GPUs, those that went out in graphs.",
           {"engine", "class"}},
    Family{"troupe_engine_pending_ops", kGauge, "Operations pushed and not finished.", {"engine"}},
    Family{"troupe_engine_asynchronous_ops",
           kGauge,
           "Asynchronous operations waiting for completion.",
           {"engine"}},
    Family{"troupe_engine_queued_ops",
           kGauge,
           "Operations ready and waiting for a thread.",
           {"engine", "class"}},
    Family{"troupe_engine_threads", kGauge, "Threads of the lanes.", {"engine", "class"}},
    Family{"troupe_engine_busy_seconds_total",
           kCounter,
           "Time that those threads did not sleep.",
           {"engine", "class"}},

    // Memory.
    Family{"troupe_memory_used_bytes", kGauge, "In live buffers.", {"device", "pool"}},
    Family{"troupe_memory_reserved_bytes",
           kGauge,
           "Held from the system, free blocks included.",
           {"device", "pool"}},
    Family{"troupe_memory_peak_bytes", kGauge, "Highest used bytes so far.", {"device", "pool"}},
    Family{"troupe_memory_allocations_total",
           kCounter,
           "Allocations by where they came from.",
           {"device", "pool", "result"}},

    // Data.
    Family{"troupe_data_records_total", kCounter, "Records read.", {"source"}},
    Family{"troupe_data_read_bytes_total", kCounter, "Record bytes read.", {"source"}},
    Family{"troupe_data_batches_total", kCounter, "Batches handed to the worker.", {"source"}},
    Family{"troupe_data_stage_seconds_total",
           kCounter,
           "Time that making batches took: read, decode (normalising included), other.",
           {"source", "stage"}},
    Family{"troupe_data_batch_seconds",
           kHistogram,
           "Time to make a batch.",
           {"source"},
           Buckets::steps},
    Family{"troupe_data_queued_batches", kGauge, "Batches decoded and waiting.", {"source"}},
    Family{"troupe_data_queue_limit_batches", kGauge, "Most batches that may wait.", {"source"}},
    Family{"troupe_data_starved_seconds_total",
           kCounter,
           "Time that the worker waited for data.",
           {"source"}},
    Family{"troupe_data_bad_records_total", kCounter, "Damaged records met.", {"source", "reason"}},
};

/// All families, in the order of the list.
constexpr std::span<const Family> families() {
  return kFamilies;
}

/// Not defined: reached only when family() names no row, which ends the compilation.
void name_is_not_in_the_list_of_families();

/// The row of a name, found while compiling.
consteval const Family& family(std::string_view name) {
  for (const Family& row : kFamilies) {
    if (row.name == name) return row;
  }
  name_is_not_in_the_list_of_families();
  return kFamilies[0];
}

/// Upper bounds of the buckets, ascending, without +Inf; empty for Buckets::none.
std::span<const double> bucket_bounds(Buckets buckets);
/// "counter", "gauge", "histogram".
std::string_view metric_type_name(MetricType type);

}  // namespace troupe::monitoring
