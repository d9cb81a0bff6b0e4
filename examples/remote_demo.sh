#!/usr/bin/env bash
# A run on "another machine" over Globus Compute, the whole story on this one: the tests' stand-in for the service, a
# real endpoint, fold at demo size on the test Slurm where that can be had (as root), else on the laptop site. It is
# submitted, looked at and fetched while it runs; a second one is cancelled; nothing is left running.
#     examples/remote_demo.sh [FOLDER]       the copy of the run comes into FOLDER, else into runs/remote-demo
set -euo pipefail
cd "$(dirname "$0")/.."
python=$PWD/.venv/bin/python
if [ "${REMOTE_DEMO:-}" = "" ]; then
  export REMOTE_DEMO=laptop
  rig=("$python" -m tests.remote.rig bash examples/remote_demo.sh "$@")
  if why=$("$python" -c 'from tests.sites.slurm import missing; why = missing(); print(why); exit(bool(why))'); then
    export REMOTE_DEMO=slurm
    exec "$python" -m tests.sites.slurm 2 "${rig[@]}"
  fi
  echo "no Slurm here ($why): the runs use the laptop site" >&2
  exec "${rig[@]}"
fi

say() { printf '\n$ steersman %s\n' "$*" >&2; "$python" -m steersman.cli "$@"; }
copy=${1:-runs/remote-demo}
site=$(mktemp --suffix=.yaml)
trap 'rm -f "$site"' EXIT
if [ "$REMOTE_DEMO" = slurm ]; then
  echo 'simulation: {nodes: 1, workers: 1, walltime_s: 600}' > "$site"
  echo 'slurm: {partition: debug}' >> "$site"
else
  echo 'simulation: {workers: 1}' > "$site"
fi
echo 'training: {workers: 1}' >> "$site"
fold=(fold --at here --site "$site" --params workflows/chignolin.yaml --set sim_ns=10 --set train_every=200)

say remote check --at here --site "$site"
say submit "${fold[@]}" --name first
say submit "${fold[@]}" --name second --seed 2
say remote list
until "$python" -m steersman.cli remote status first --json | grep -q '"frames": [1-9]'; do sleep 1; done
say remote status first
say remote why first w0.0
say remote cancel second
say remote fetch first --what figures --to "$copy"       # drawn there, while it runs
say remote tell first finish
say remote watch first
say remote fetch first --what all --to "$copy"
say status "$copy"
say remote list
echo "the report: $copy/report.html" >&2
