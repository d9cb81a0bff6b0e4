"""PBS Pro's commands in front of Slurm, for PBS can be had from no package: FOLDER qsub|qstat|qdel|mpiexec ...

Answers and exit codes are those of a real OpenPBS 23.06. As there, a job starts in the home directory, on its first
node only, with a clean environment (nothing of Slurm's), PBS_JOBID, PBS_NODEFILE and PBS_O_WORKDIR.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SERVER = "login"
QUEUES = {"workq": "debug"}  # PBS queue -> Slurm partition
LIMITS = {"walltime": "00:30:00"}
STATES = {"PENDING": "Q", "RUNNING": "R", "CONFIGURING": "R", "COMPLETING": "E", "SUSPENDED": "S"}
RESOURCES = ("ncpus", "ngpus", "mem", "mpiprocs")
JOB = """#!/bin/bash
D=$(mktemp -d)
declare -px | grep -E ' SLURM' > $D/slurm
scontrol show hostnames $SLURM_JOB_NODELIST > $D/nodes
cat > $D/job <<'__PBS_EOF__'
{body}
__PBS_EOF__
cd $HOME
env -i HOME=$HOME USER=$USER LANG=C.UTF-8 PBS_ENVIRONMENT=PBS_BATCH PBS_O_PATH={path} \\
  PBS_JOBID=$SLURM_JOB_ID.{server} PBS_QUEUE={queue} PBS_O_WORKDIR={work} PBS_NODEFILE=$D/nodes bash -l $D/job
code=$?
rm -rf $D
exit $code
"""


def ran(*command: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def refuse(code: int, words: str) -> None:
    sys.stderr.write(f"{sys.argv[2]}: {words}\n")
    sys.exit(code)


def jobs() -> dict[str, dict[str, str]]:
    """What Slurm knows of its jobs, by number."""
    found = {}
    for line in ran("scontrol", "-o", "show", "job").stdout.splitlines():
        fields = dict(re.findall(r"(\w[\w:/]*)=(.*?)(?= \w[\w:/]*=|$)", line))
        if "JobId" in fields:
            found[fields["JobId"]] = fields
    return found


def options(words: list[str], into: dict[str, str]) -> str:
    """Read qsub's options; those that are there already stay, as the command line stands before the script."""
    while words and words[0].startswith("-"):
        name, value = words[0][:2], words[0][2:]
        if name not in ("-N", "-l", "-q", "-A", "-o", "-e", "-S", "-m", "-k", "-r"):
            refuse(2, f"illegal option -- {words[0]}\nusage: qsub [-a date_time] [-A account_string] ...")
        value, words = (value, words[1:]) if value else (words[1], words[2:])
        for part in value.split(",") if name == "-l" else [f"{name}={value}"]:
            into.setdefault(*part.split("=", 1))
    return words[0] if words else ""


def qsub(words: list[str]) -> None:
    asked: dict[str, str] = {}
    script = Path(options(words, asked))
    body = script.read_text()
    for line in body.splitlines():
        if line.startswith("#PBS "):
            options(shlex.split(line[5:]), asked)
        elif line.strip() and not line.startswith("#"):
            break
    queue = asked.get("-q", "workq")
    if queue not in QUEUES:
        refuse(170, "Unknown queue")
    nodes, *parts = asked.get("select", "1:ncpus=1").split(":")
    chunk = dict(part.split("=") for part in parts)
    if unknown := chunk.keys() - set(RESOURCES):
        refuse(187, f"Unknown resource: {min(unknown)}")
    work = shlex.quote(os.getcwd())
    path = f"{sys.argv[1]}:{os.environ['PATH']}"
    job = JOB.format(body=body, path=path, server=SERVER, queue=queue, work=work)
    command = [
        "sbatch", "--parsable", "-J", asked.get("-N", script.name), "-p", QUEUES[queue], "-N", nodes,
        "--ntasks-per-node=1", "-c", chunk.get("ncpus", "1"), "-o", asked["-o"], "-e", asked["-e"],
        "-t", asked["walltime"], "--no-requeue",
    ]  # fmt: skip
    if "ngpus" in chunk:
        command.append(f"--gpus-per-node={chunk['ngpus']}")
    done = ran(*command, text=job)
    if done.returncode:
        refuse(188, done.stderr.strip())
    print(f"{done.stdout.strip()}.{SERVER}")


def qstat(words: list[str]) -> None:
    names = [word for word in words if not word.startswith("-") and word != "json"]
    if "-Q" in words:
        unknown = [name for name in names if name not in QUEUES]
        if unknown:
            refuse(170, f"Unknown queue {unknown[0]}")
        _print("Queue", {name: {"enabled": "True", "started": "True", "resources_max": LIMITS} for name in names})
        return
    known, code = jobs(), 0
    told: dict[str, Any] = {}
    for name in names:
        job = known.get(name.split(".")[0])
        if job is None:
            sys.stderr.write(f"qstat: Unknown Job Id {name}\n")
            code = 153
            continue
        state = STATES.get(job["JobState"], "F")
        told[name] = {"job_state": state, "queue": job["Partition"], "exec_host": job.get("NodeList", "")}
        if state == "F":
            endings = {"CANCELLED": 271, "TIMEOUT": -29}
            told[name]["Exit_status"] = endings.get(job["JobState"], int(job["ExitCode"].split(":")[0]))
    _print("Jobs", told)
    sys.exit(code)


def _print(kind: str, values: dict[str, Any]) -> None:
    head = {"timestamp": int(time.time()), "pbs_version": "23.06.06", "pbs_server": SERVER}
    print(json.dumps(head | ({kind: values} if values else {}), indent=1))


def qdel(words: list[str]) -> None:
    known = jobs()
    for name in words:
        job = known.get(name.split(".")[0])
        if job is None:
            refuse(153, f"Unknown Job Id {name}")
        elif job["JobState"] not in STATES:
            refuse(35, f"Job has finished {name}")
        else:
            ran("scancel", job["JobId"])


def mpiexec(words: list[str]) -> None:
    """Start over the nodes of the job; what PBS hides of Slurm is found beside the node file."""
    asked = {}
    while words[0].startswith("-"):
        asked[words[0].lstrip("-")], words = words[1], words[2:]
    nodes = Path(os.environ["PBS_NODEFILE"])
    hidden = dict(re.findall(r'declare -x (SLURM\w*)="(.*)"', (nodes.parent / "slurm").read_text()))
    left_out = ("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE")
    slurm = {name: value for name, value in hidden.items() if name not in left_out}
    start = ["srun", "--overlap", "--mpi=pmi2", "-n", asked["n"], "--ntasks-per-node", asked["ppn"]]
    if "hosts" in asked:
        start += ["--nodelist", asked["hosts"], "--nodes", str(len(asked["hosts"].split(",")))]
    os.execvpe("srun", [*start, "env", *(f"-u{name}" for name in slurm), *words], os.environ | slurm)


if __name__ == "__main__":
    {"qsub": qsub, "qstat": qstat, "qdel": qdel, "mpiexec": mpiexec}[sys.argv[2]](sys.argv[3:])
