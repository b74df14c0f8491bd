#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the dashboards for Grafana: monitoring/make_dashboards.py [FOLDER]

Without FOLDER they go to monitoring/dashboards, from where the build takes them into the program; a
test compares them. Needs nothing but Python. A panel names metrics of families.h and labels as
Prometheus has them: those of the family and the target's role, node, ranks and train_job. A label
`role` of a family would be `exported_role` there, so no query uses one.
"""
import json
import pathlib
import sys

SOURCE = {"type": "prometheus", "uid": "${ds}"}
RATE = "[$__rate_interval]"
# What a panel selects: processes of jobs, workers' own series, agents, and all processes.
JOB = 'train_job=~"$train_job"'
PROCESS = f'{JOB}, node=~"$node"'
WORKER = f'{PROCESS}, rank=~"$rank"'
NODE = 'node=~"$node"'
WIDTH, HEIGHT = 12, 8  # of a panel, of 24 columns


def panel(title, unit, *queries, kind="timeseries", text="", stack=False, lowest=0):
    """`queries`: (expression, legend)."""
    custom = {"fillOpacity": 60 if stack else 5, "showPoints": "never",
              "stacking": {"mode": "normal" if stack else "none", "group": "A"}}
    defaults = {"unit": unit, "custom": custom if kind == "timeseries" else {}}
    if lowest is not None:
        defaults["min"] = lowest
    if unit == "percentunit" and kind != "timeseries":
        defaults["max"] = 1
    targets = [{"refId": chr(ord("A") + i), "datasource": SOURCE, "expr": expression,
                "legendFormat": legend} for i, (expression, legend) in enumerate(queries)]
    options = {"legend": {"displayMode": "list", "placement": "bottom"},
               "tooltip": {"mode": "multi", "sort": "desc"}}
    if kind != "timeseries":
        options = {"reduceOptions": {"calcs": ["lastNotNull"]}, "orientation": "auto"}
    return {"type": kind, "title": title, "description": text, "datasource": SOURCE,
            "fieldConfig": {"defaults": defaults, "overrides": []}, "options": options,
            "targets": targets}


def row(title):
    """A heading over the panels that follow."""
    return {"type": "row", "title": title, "collapsed": False, "panels": []}


def quantile(share, name, by, selector):
    """A quantile of the histogram `name`."""
    return (f"histogram_quantile({share}, sum by ({by}, le) "
            f"(rate({name}_bucket{{{selector}}}{RATE})))")


def rate(name, by, selector):
    return f"sum by ({by}) (rate({name}{{{selector}}}{RATE}))"


def mean(name, by, selector):
    """The mean of a histogram's observations."""
    return f"{rate(name + '_sum', by, selector)} / {rate(name + '_count', by, selector)}"


def choice(name, label, query, many=True):
    """A variable whose values Prometheus knows; "All" matches series without the label too."""
    made = {"name": name, "label": label, "type": "query", "datasource": SOURCE,
            "query": {"query": query, "refId": name}, "refresh": 2, "sort": 3, "multi": many,
            "includeAll": many}
    if many:
        made["allValue"] = ".*"
        made["current"] = {"text": ["All"], "value": ["$__all"]}
    return made


CHOICES = {
    "train_job": choice("train_job", "Job", "label_values(troupe_job_samples_total, train_job)"),
    "node": choice("node", "Machine", "label_values(troupe_machine_processors, node)"),
    "rank": choice("rank", "Rank", f"label_values(troupe_worker_steps_total{{{PROCESS}}}, rank)"),
}


def place(panels):
    """Numbers and places: two panels side by side; a row begins anew, over the whole width."""
    x, y = 0, 0
    for i, one in enumerate(panels):
        one["id"] = i + 1
        if one["type"] == "row":
            y += HEIGHT if x > 0 else 0
            one["gridPos"] = {"x": 0, "y": y, "w": 2 * WIDTH, "h": 1}
            x, y = 0, y + 1
            continue
        one["gridPos"] = {"x": x, "y": y, "w": WIDTH, "h": HEIGHT}
        x, y = (WIDTH, y) if x == 0 else (0, y + HEIGHT)


def dashboard(uid, title, text, choices, panels):
    place(panels)
    source = {"name": "ds", "label": "Data source", "type": "datasource", "query": "prometheus"}
    return {"uid": f"troupe-{uid}", "title": f"Troupe: {title}", "description": text,
            "tags": ["troupe"], "editable": False, "schemaVersion": 37, "version": 1,
            "refresh": "10s", "time": {"from": "now-1h", "to": "now"}, "timezone": "",
            "templating": {"list": [source] + [CHOICES[name] for name in choices]},
            "annotations": {"list": []},
            "links": [{"type": "dashboards", "title": "Troupe", "tags": ["troupe"],
                       "asDropdown": True, "keepTime": True, "includeVars": True}],
            "panels": panels}


def cluster():
    return dashboard("cluster", "cluster", "Is everybody there, and is there room?", ["node"], [
        panel("Processes that answer, by role", "short",
              ("sum by (role) (up{role!=\"\"})", "{{role}}"),
              text="0 for a role that was there: TroupeProcessDown."),
        panel("Jobs by state", "short",
              ("sum by (state) (troupe_coordinator_jobs)", "{{state}}")),
        panel("Worker slots", "short",
              ("sum by (kind, state) (troupe_coordinator_devices)", "{{kind}}: {{state}}"),
              stack=True),
        panel("Machines that have joined", "short",
              ("sum(troupe_coordinator_nodes)", "machines")),
        panel("Jobs ended, by result", "short",
              ("sum by (result) (troupe_coordinator_jobs_finished_total)", "{{result}}"),
              text="Since the coordinator began."),
        panel("Time of jobs in the queue", "s",
              ("histogram_quantile(0.95, sum by (le) "
               "(increase(troupe_coordinator_job_queue_seconds_bucket[1h])))",
               "95 % of an hour"),
              ("sum(increase(troupe_coordinator_job_queue_seconds_sum[1h])) / "
               "sum(increase(troupe_coordinator_job_queue_seconds_count[1h]))",
               "mean of an hour")),
        panel("Load of machines, tasks a processor", "short",
              (f"troupe_machine_load_average{{{NODE}}} / troupe_machine_processors{{{NODE}}}",
               "{{node}}"),
              text="Well above 1: ranks share processors, and steps wait."),
        panel("Memory of machines in use", "percentunit",
              (f"1 - troupe_machine_memory_available_bytes{{{NODE}}} / "
               f"troupe_machine_memory_bytes{{{NODE}}}", "{{node}}")),
        panel("Processors in use, by process", "short",
              (rate("process_cpu_seconds_total", "role, node, instance", 'role!=""'),
               "{{role}} {{node}} {{instance}}")),
        panel("Warnings and errors logged a second", "short",
              (rate("troupe_log_messages_total", "role, node, level", 'level=~"warn|error"'),
               "{{level}}: {{role}} {{node}}")),
        panel("Pages served a second", "reqps",
              (rate("troupe_http_requests_total", "role, route, code", 'role!=""'),
               "{{role}} {{route}} {{code}}")),
        panel("Time to make a page", "s",
              (quantile(0.95, "troupe_http_request_seconds", "role, route", 'role!=""'),
               "95 %: {{role}} {{route}}")),
        row("GPUs"),
        *gpus(),
    ])


def gpus():
    """Of agents that offer GPUs."""
    each = "{{node}} gpu {{gpu}}"

    def shown(what):
        return f"troupe_device_{what}{{{NODE}}}", each

    def more_in_an_hour(kind):
        return (f"sum by (node, gpu) (increase(troupe_device_{kind}_errors_total{{{NODE}}}[1h]))",
                f"{kind}: {each}")

    return [
        panel("GPUs in service", "short", shown("in_service"),
              text="0: TroupeDeviceOutOfService. The agent's log says why."),
        panel("Time in which GPUs compute", "percentunit", shown("utilization_ratio")),
        panel("Time in which their memory is read or written", "percentunit",
              shown("memory_utilization_ratio")),
        panel("Memory of GPUs in use", "percentunit",
              (f"troupe_device_memory_used_bytes{{{NODE}}} / "
               f"troupe_device_memory_total_bytes{{{NODE}}}", each)),
        panel("Temperature of GPUs", "celsius", shown("temperature_celsius"),
              text="Above 90 for five minutes: TroupeDeviceHot."),
        panel("Power of GPUs", "watt", shown("power_watts")),
        panel("Clocks of multiprocessors", "hertz", shown("sm_clock_hertz"),
              text="One below the others under the same load: too hot, or out of power."),
        panel("What lowers the clocks of GPUs", "short",
              (f"troupe_device_throttled{{{NODE}}} > 0", each + ": {{reason}}"),
              text="sw_power_cap is usual under full load. Else see TroupeDeviceThrottled."),
        panel("Time in which power or heat lowers the clocks of GPUs", "percentunit",
              (rate("troupe_device_power_violation_seconds_total", "node, gpu", NODE),
               f"power: {each}"),
              (rate("troupe_device_thermal_violation_seconds_total", "node, gpu", NODE),
               f"heat: {each}")),
        panel("XID errors since the agent began", "short",
              (f"troupe_device_xid_errors_total{{{NODE}}} > 0", each + ": XID {{xid}}"),
              text="13, 31, 43 and 45 are programs' faults. Of others see TroupeDeviceXid."),
        panel("Errors of memory within an hour", "short",
              more_in_an_hour("correctable"), more_in_an_hour("uncorrectable")),
        panel("Uncorrectable errors since the last reset", "short",
              shown("uncorrectable_errors_total"),
              text="Any takes the GPU out of service until it is reset."),
        panel("Memory of GPUs that cannot be repaired", "short", shown("row_remap_failed"),
              text="1: a bad row found no spare one. The GPU is for its maker."),
        panel("Memory of GPUs that a reset repairs", "short", shown("row_remap_pending"),
              text="1: a bad row gets its spare one at the next reset."),
    ]


def job():
    return dashboard("job", "job", "How far is it, does it learn, what is lost?",
                     ["train_job", "node", "rank"], [
        panel("Progress", "percentunit",
              (f"troupe_job_progress_ratio{{{JOB}}}", "{{train_job}}"), kind="bargauge"),
        panel("Goodput", "percentunit",
              (f"troupe_job_goodput_ratio{{{JOB}}}", "{{train_job}}"),
              text="Of the time that the job held its machines, the share of steps that count."),
        panel("Training loss", "short",
              (f"troupe_job_loss{{{JOB}}}", "{{train_job}} {{split}}"), lowest=None),
        panel("Accuracy", "percentunit",
              (f"troupe_job_accuracy_ratio{{{JOB}}}", "{{train_job}} {{split}}"), lowest=None),
        panel("Samples a second", "short",
              (rate("troupe_worker_samples_total", "train_job", PROCESS), "{{train_job}}")),
        panel("Samples used", "short",
              (f"troupe_job_samples_total{{{JOB}}}", "{{train_job}}")),
        panel("Step", "short", (f"troupe_job_step{{{JOB}}}", "{{train_job}}"),
              (f"max by (train_job) (troupe_worker_global_step{{{WORKER}}})",
               "{{train_job}}, foremost rank"),
              text="The lower line is what every rank has reported."),
        panel("Time since a rank's last step", "s",
              (f"time() - troupe_worker_last_step_timestamp_seconds{{{WORKER}}}",
               "{{train_job}} rank {{rank}} on {{node}}"),
              text="A rank that stands alone is missing; all of them: TroupeJobStalled."),
        panel("Ranks waited for", "short",
              (f"max by (train_job, rank) (troupe_job_missing_ranks{{{JOB}}})",
               "{{train_job}} rank {{rank}}"),
              text="Empty while nobody is missing."),
        panel("Runs after the first one", "short",
              (f"troupe_job_resumes_total{{{JOB}}}", "{{train_job}}")),
        panel("Age of the newest checkpoint", "s",
              (f"time() - max by (train_job) "
               f"(troupe_job_last_checkpoint_timestamp_seconds{{{JOB}}})", "{{train_job}}")),
        panel("Time to write checkpoints", "s",
              (quantile(0.95, "troupe_checkpoint_seconds", "train_job, op", PROCESS),
               "95 %: {{train_job}} {{op}}")),
        panel("Checkpoint bytes a second", "Bps",
              (rate("troupe_checkpoint_bytes_total", "train_job, node", PROCESS),
               "{{train_job}} {{node}}")),
        panel("Checkpoint files that were not written", "short",
              (f"sum by (train_job, node, op) (troupe_checkpoint_failures_total{{{PROCESS}}})",
               "{{train_job}} {{node}} {{op}}")),
        panel("Learning rate", "short",
              (f"max by (train_job) (troupe_worker_learning_rate{{{WORKER}}})", "{{train_job}}")),
        panel("Epoch", "short",
              (f"min by (train_job) (troupe_worker_epoch{{{WORKER}}})", "{{train_job}}")),
    ])


def workers():
    phases = rate("troupe_worker_phase_seconds_total", "train_job, phase", WORKER)
    rank = "train_job, node, rank"
    own = rate("troupe_worker_phase_seconds_total", rank, f'{WORKER}, phase=~"data|issue|compute"')
    steps = rate("troupe_worker_steps_total", rank, WORKER)
    each = "{{train_job}} rank {{rank}} on {{node}}"
    lane = "{{node}} {{engine}} {{class}}"
    lanes = "train_job, node, engine, class"
    return dashboard("workers", "workers", "Where does a rank's time go, and who is slow?",
                     ["train_job", "node", "rank"], [
        panel("Where the ranks' time goes", "percentunit",
              (f"{phases} / ignoring (phase) group_left () sum by (train_job) ({phases})",
               "{{train_job}} {{phase}}"), stack=True,
              text="data: waits for batches. compute: its own gradients. pull: waits for weights, "
                   "so for servers and other ranks."),
        panel("A rank's own time for a step", "s", (f"{own} / {steps}", each),
              text="data, issue and compute. A rank above the others holds all of them up."),
        panel("Waiting for weights, for a step", "s",
              (rate("troupe_worker_phase_seconds_total", rank, f'{WORKER}, phase="pull"') +
               f" / {steps}", each),
              text="The slowest rank waits least."),
        panel("Waiting for data, for a step", "s",
              (rate("troupe_worker_phase_seconds_total", rank, f'{WORKER}, phase="data"') +
               f" / {steps}", each)),
        panel("Steps a second", "short", (steps, each)),
        panel("Time of a step", "s",
              (quantile(0.5, "troupe_worker_step_seconds", "train_job", WORKER),
               "half: {{train_job}}"),
              (quantile(0.95, "troupe_worker_step_seconds", "train_job", WORKER),
               "95 %: {{train_job}}")),
        panel("Samples a second, by rank", "short",
              (rate("troupe_worker_samples_total", rank, WORKER), each)),
        panel("Loss, by rank", "short", (f"troupe_worker_loss{{{WORKER}}}", each), lowest=None),
        panel("Engine threads at work, of all", "percentunit",
              (rate("troupe_engine_busy_seconds_total", lanes, PROCESS) +
               f" / sum by ({lanes}) (troupe_engine_threads{{{PROCESS}}} > 0)", lane)),
        panel("Operations done a second", "ops",
              (rate("troupe_engine_ops_total", "train_job, node, engine, result", PROCESS),
               "{{node}} {{engine}} {{result}}"),
              (rate("troupe_engine_graph_ops_total", "train_job, node, engine", PROCESS),
               "in graphs: {{node}} {{engine}}")),
        panel("Operations ready and waiting for a thread", "short",
              (f"sum by ({lanes}) (troupe_engine_queued_ops{{{PROCESS}}})", lane)),
        panel("Operations not finished", "short",
              (f"sum by (train_job, node, engine) (troupe_engine_pending_ops{{{PROCESS}}})",
               "{{node}} {{engine}}"),
              (f"sum by (train_job, node, engine) (troupe_engine_asynchronous_ops{{{PROCESS}}})",
               "asynchronous: {{node}} {{engine}}")),
    ])


def servers():
    tier = "train_job, node, level"
    each = "level {{level}} {{train_job}} {{node}}"
    stale = mean("troupe_kv_staleness_steps", "train_job, level", PROCESS)

    def late(name, by="train_job, level", legend="level {{level}} {{train_job}}"):
        return quantile(0.95, name, by, PROCESS), f"95 %: {legend}"

    return dashboard("servers", "servers",
                     "Level 1: device servers, one a machine. Level 2: parameter servers.",
                     ["train_job", "node"], [
        panel("Requests a second", "reqps",
              (rate("troupe_kv_requests_total", "train_job, level, op, result", PROCESS),
               "level {{level}} {{op}} {{result}} {{train_job}}"),
              text="duplicate and not_ready are harmless in small numbers."),
        panel("Tensor bytes a second", "Bps",
              (rate("troupe_kv_bytes_total", "train_job, level, op", PROCESS),
               "level {{level}} {{op}} {{train_job}}")),
        panel("Time of a request", "s",
              late("troupe_kv_request_seconds", "train_job, level, op",
                   "level {{level}} {{op}} {{train_job}}")),
        panel("From the first to the last push of a step", "s",
              late("troupe_kv_round_seconds"),
              text="How far apart ranks (level 1) and machines (level 2) are."),
        panel("Time of an addition of gradients", "s", late("troupe_kv_aggregate_seconds")),
        panel("Time of a run of the updater", "s", late("troupe_kv_update_seconds")),
        panel("Additions and updates a second", "ops",
              (rate("troupe_kv_additions_total", tier, PROCESS), "additions: " + each),
              (rate("troupe_kv_updates_total", tier, PROCESS), "updates: " + each)),
        panel("Pushes received and not answered", "short",
              (f"sum by ({tier}) (troupe_kv_pending_pushes{{{PROCESS}}})", each)),
        panel("Staleness, mean, and its bound", "short", (stale, "level {{level}} {{train_job}}"),
              (f"max by (train_job, level) (troupe_kv_staleness_limit_steps{{{PROCESS}}})",
               "bound: level {{level}} {{train_job}}"),
              text="0 in sequential tiers, which have no bound."),
        panel("Version, lowest of any slice", "short",
              (f"min by ({tier}) (troupe_kv_version{{{PROCESS}}})", each)),
        panel("Norm of all gradients", "short",
              (f"max by (train_job) (troupe_kv_gradient_norm{{{PROCESS}}})", "{{train_job}}"),
              text="Before train.optimizer.clip_norm cuts it. Of jobs in f16 or with clip_norm."),
        panel("Loss scale", "short",
              (f"max by (train_job) (troupe_kv_loss_scale{{{PROCESS}}})", "{{train_job}}"),
              text="Of jobs in f16. It falls where a step overflows: often, and the rate of "
                   "learning is too high."),
        panel("Dropped steps a second", "short",
              (rate("troupe_kv_dropped_steps_total", "train_job", PROCESS), "{{train_job}}"),
              text="Of jobs in f16: steps that overflowed and do not count."),
        panel("Bytes held", "bytes",
              (f"sum by ({tier}) (troupe_kv_store_bytes{{{PROCESS}}})", each), stack=True),
        panel("Keys held", "short", (f"sum by ({tier}) (troupe_kv_keys{{{PROCESS}}})", each)),
    ])


def data():
    source = "train_job, node, source"
    each = "{{train_job}} {{source}} {{node}}"
    return dashboard("data", "data", "Do the ranks wait for data, and why?",
                     ["train_job", "node"], [
        panel("Waiting for data, of a second, all ranks of a machine", "s",
              (rate("troupe_data_starved_seconds_total", source, PROCESS), each),
              text="Above a fifth of the machine's ranks: TroupeInputBound."),
        panel("Batches ready, of all that may wait", "percentunit",
              (f"sum by ({source}) (troupe_data_queued_batches{{{PROCESS}}}) / "
               f"sum by ({source}) (troupe_data_queue_limit_batches{{{PROCESS}}} > 0)", each),
              text="Empty most of the time: data is the bottleneck. Full: it is not."),
        panel("Where the time of making batches goes", "s",
              (rate("troupe_data_stage_seconds_total", "train_job, source, stage", PROCESS),
               "{{train_job}} {{source}} {{stage}}"), stack=True),
        panel("Time to make a batch", "s",
              (quantile(0.95, "troupe_data_batch_seconds", "train_job, source", PROCESS),
               "95 %: {{train_job}} {{source}}")),
        panel("Records a second", "short",
              (rate("troupe_data_records_total", source, PROCESS), each)),
        panel("Record bytes a second", "Bps",
              (rate("troupe_data_read_bytes_total", source, PROCESS), each)),
        panel("Batches a second", "short",
              (rate("troupe_data_batches_total", source, PROCESS), each)),
        panel("Damaged records met", "short",
              (f"sum by ({source}, reason) (troupe_data_bad_records_total{{{PROCESS}}})",
               each + " {{reason}}")),
    ])


def memory():
    pool = "role, node, device, pool"
    each = "{{role}} {{node}} {{pool}}"

    def held(what):
        return f"sum by ({pool}) (troupe_memory_{what}_bytes{{{PROCESS}}})"

    return dashboard("memory", "memory", "Who has how much memory, and how near is the limit?",
                     ["train_job", "node"], [
        panel("Used, of the limit of the control group", "percentunit",
              (f"max by (role, node) (troupe_cgroup_memory_used_bytes{{{PROCESS}}} / "
               f"troupe_cgroup_memory_limit_bytes{{{PROCESS}}})", "{{role}} {{node}}"),
              text="Empty without a limit. At 1 the system kills a process."),
        panel("Memory of machines in use", "percentunit",
              (f"1 - troupe_machine_memory_available_bytes{{{NODE}}} / "
               f"troupe_machine_memory_bytes{{{NODE}}}", "{{node}}")),
        panel("Memory of processes", "bytes",
              (f"sum by (role, node, train_job) (process_resident_memory_bytes{{{PROCESS}}})",
               "{{role}} {{node}} {{train_job}}"), stack=True),
        panel("Buffers in use", "bytes", (held("used"), each), stack=True),
        panel("Held from the system", "bytes", (held("reserved"), each), stack=True),
        panel("Most used so far", "bytes", (held("peak"), each)),
        panel("Allocations a second", "ops",
              (rate("troupe_memory_allocations_total", "role, node, result", PROCESS),
               "{{role}} {{node}} {{result}}"),
              text="Nearly all should be hits. out_of_memory ends a job."),
        panel("Threads and open files", "short",
              (f"sum by (role, node) (process_threads{{{PROCESS}}})", "threads: {{role}} {{node}}"),
              (f"sum by (role, node) (process_open_fds{{{PROCESS}}})", "files: {{role}} {{node}}")),
    ])


def links():
    process = "train_job, role, node"
    each = "{{role}} {{node}} {{train_job}}"
    return dashboard("links", "links", "Do bytes flow between processes, and do links hold?",
                     ["train_job", "node"], [
        panel("Bytes a second", "Bps",
              (rate("troupe_net_bytes_total", f"{process}, direction", PROCESS),
               each + " {{direction}}")),
        panel("Frames a second", "short",
              (rate("troupe_net_messages_total", f"{process}, direction", PROCESS),
               each + " {{direction}}")),
        panel("Bytes waiting or unacknowledged", "bytes",
              (f"sum by ({process}) (troupe_net_queued_bytes{{{PROCESS}}})", each)),
        panel("Links alive", "short",
              (f"sum by ({process}) (troupe_net_peers{{{PROCESS}}})", each)),
        panel("Cuts healed, frames sent or received again", "short",
              (f"sum by ({process}, kind) (troupe_net_recoveries_total{{{PROCESS}}})",
               each + " {{kind}}"),
              text="Since the process began. resumed that grows: the network cuts connections."),
        panel("Times that a process stood still", "short",
              (f"sum by ({process}) (troupe_net_own_pauses_total{{{PROCESS}}})", each)),
        panel("Clocks of machines, against Prometheus", "s",
              (f"troupe_machine_time_seconds{{{NODE}}} - "
               f"timestamp(troupe_machine_time_seconds{{{NODE}}})", "{{node}}"), lowest=None,
              text="Right to the time of a scrape. Nothing in a job's result depends on clocks."),
    ])


def text_of(made):
    return json.dumps(made, indent=1, sort_keys=True) + "\n"


def main():
    folder = pathlib.Path(__file__).resolve().parent / "dashboards"
    if len(sys.argv) > 2 or any(word.startswith("-") for word in sys.argv[1:]):
        sys.exit(__doc__.splitlines()[0])
    if len(sys.argv) > 1:
        folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for make in (cluster, job, workers, servers, data, memory, links):
        (folder / f"{make.__name__}.json").write_text(text_of(make()))


if __name__ == "__main__":
    main()
