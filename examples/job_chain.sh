#!/usr/bin/env bash
# A campaign as a chain of jobs: its driver runs on a node, and each job goes on where the one before left in time. For
# machines whose login nodes end long processes. Say once what is run, where, and how a job is asked for:
#     export RUN=$PWD/runs/chain WORKFLOW="fold --set frames=1e6" SITE=frontier
#     export NEXT="sbatch --account=abc123 --nodes=4 --time=120 $PWD/examples/job_chain.sh"
#     $NEXT
# PBS: NEXT="qsub -V -A abc123 -q prod -l select=10 -l walltime=3:00:00 -l filesystems=home $PWD/examples/job_chain.sh"
# The chain ends when the campaign does, or fails; `steersman tell $RUN finish` ends it from anywhere.
set -uo pipefail
cd "$(dirname "$RUN")" || exit
code=0
if [ -e "$RUN/journal.jsonl" ]; then
  steersman resume "$RUN" || code=$?
else
  # shellcheck disable=SC2086  # words of a command
  steersman run $WORKFLOW --site "$SITE" --inside --run-dir "$RUN" || code=$?
fi
[ $code -ne 130 ] && exit $code  # 130: it was left in time, `margin_s` before the job's end
$NEXT
