# SPDX-License-Identifier: Apache-2.0
"""A real Slurm of this machine alone, in a folder of its own: munged, slurmctld and slurmd, with
ports, keys and settings that nobody else uses."""
import os
import pathlib
import shutil
import socket
import subprocess
import time

START_S = 60
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scancel", "squeue", "scontrol")
CONF = """
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmdPort={daemon_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
SchedulerParameters=sched_interval=2,bf_interval=2
KillWait=20
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=1-0 State=UP
"""


def missing():
    """Why there is no Slurm here; empty if there is one."""
    if os.geteuid() != 0:
        return "slurmd needs root"
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if absent:
        return f"{', '.join(absent)}: not installed (Debian packages slurmctld slurmd munge)"
    return ""


def free_ports(count):
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


class Slurm:
    """Started by the constructor; end() ends it."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.daemons = []
        host = socket.gethostname().split(".")[0]
        port, daemon_port = free_ports(2)
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        conf = self.folder / "slurm.conf"
        conf.write_text(CONF.format(host=host, port=port, daemon_port=daemon_port,
                                    folder=self.folder, cpus=os.cpu_count()))
        self.environment = {**os.environ, "SLURM_CONF": str(conf)}
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        try:
            self.start("munged", "--foreground", "--force", f"--key-file={key}",
                       f"--socket={self.folder}/munge.socket",
                       f"--pid-file={self.folder}/munge.pid",
                       f"--log-file={self.folder}/munge.log", f"--seed-file={self.folder}/seed")
            self.wait_until(lambda: (self.folder / "munge.socket").exists())
            self.start("slurmctld", "-D", "-f", conf)
            self.wait_until(lambda: self.run("scontrol", "ping").returncode == 0)
            self.start("slurmd", "-D", "-f", conf)
            self.wait_until(lambda: "idle" in self.run("sinfo", "-h", "-o", "%T").stdout)
        except BaseException:
            self.end()
            raise

    def start(self, *words):
        with open(self.folder / f"{words[0]}.out", "w") as out:
            self.daemons.append(subprocess.Popen([str(word) for word in words], stdout=out,
                                                 stderr=out, env=self.environment))

    def run(self, *words, folder=None, timeout=START_S):
        return subprocess.run([str(word) for word in words], capture_output=True, text=True,
                              env=self.environment, cwd=folder, timeout=timeout)

    def wait_until(self, true):
        deadline = time.monotonic() + START_S
        while not true():
            if time.monotonic() > deadline:
                raise AssertionError("Slurm did not start:\n" + self.text())
            time.sleep(0.2)

    def text(self):
        return "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')}"
                         for path in sorted(self.folder.glob("*.out")))

    def end(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(timeout=30)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
