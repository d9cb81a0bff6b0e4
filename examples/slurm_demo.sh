#!/usr/bin/env bash
# A real Slurm cluster on this machine (as root; Debian's packages are installed where they are missing), the fold
# workflow on two of its nodes, its report; then the cluster goes. Only the nodes are not real: they share processors.
#     examples/slurm_demo.sh [RUN [--set KEY=VALUE ...]]
set -euo pipefail
cd "$(dirname "$0")/.."
run=${1:-runs/slurm-demo}
shift || true
site=$(mktemp --suffix=.yaml)
trap 'rm -f "$site"' EXIT
cat > "$site" <<END
simulation: {nodes: 2, workers: 1, walltime_s: 1200}
training: {workers: 1}
slurm: {partition: debug}
END

# Exit code 3: the run ended with its budget, as it should.
.venv/bin/python -m tests.sites.slurm 2 .venv/bin/steersman run fold --params workflows/demo.yaml \
  --site "$site" --run-dir "$run" "$@" || [ $? -eq 3 ]
.venv/bin/steersman status "$run" --json
echo "the report: $run/report.html, the data behind its figures: $run/frames.zarr, $run/journal.jsonl" >&2
