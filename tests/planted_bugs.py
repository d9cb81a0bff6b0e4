"""Small bugs of a careless edit, planted one at a time -> which of them the tests of their room find, and which live.

    python tests/planted_bugs.py [--room ROOM] [--only N]

It works in a copy of the checkout, and runs all the tests named here once without a bug. A bug that lives is a law that
is missing. A bug whose text is not found, or found twice, is stale: correct it here.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
HANGS_S = 120  # a test that takes longer has found the bug, too
NO_TEST = 5  # pytest's exit status: there is none of this kind


class Bug(NamedTuple):
    """What is planted where, and the test files that are to find it."""

    file: str
    old: str
    new: str
    tests: str


STARTS, BIAS = "tests/steering/test_exact_starts.py", "tests/steering/test_bias.py tests/steering/test_opes.py"
WEIGHTS, ENSEMBLE = "tests/steering/test_reweighted_wells.py", "tests/steering/test_weighted_ensemble.py"
STATISTICS, VERDICTS = "tests/analysis/test_statistics.py", "tests/analysis/test_verdicts.py"
RARE = "tests/steering/test_rare_events.py"
PIECES, SEGMENTS = "tests/analysis/test_pieces.py", "tests/worker/test_start_and_state.py"
UNITS, LINEAGES = "tests/models/networks/test_units.py", "tests/store/test_lineages.py"
OUTSIDE, PERCEPTRON = "tests/test_outside.py", "tests/models/networks/test_perceptron.py"
COPY, GROMACS = "tests/remote/test_copy.py", "tests/apps/test_gromacs.py"
PROGRAM, ASSISTANT = "tests/apps/test_program.py tests/apps/test_program_calls.py", "tests/cli/test_assistant.py"
SHARED, PLUMED = "tests/stages/test_shared.py", "tests/apps/molecular_dynamics/test_plumed.py"

SPLITTING, BATCH = "tests/steering/test_splitting.py", "tests/worker/test_batch.py"
SITES = "tests/executors/test_site.py tests/executors/test_together.py"
DYNAMICS = "tests/apps/molecular_dynamics/test_simulation.py"
CLIMATE, HYBRID = "tests/apps/shallow_water/test_climate.py", "tests/apps/shallow_water/test_hybrid.py"
AUDITS, ATOMS = "tests/steering/test_audits.py", "tests/apps/atoms/test_atoms.py"

HOT = "tests/apps/molecular_dynamics/test_biasing.py"
MISSING = "tests/engine/test_missing.py"
LABELLER, LABELLING = "tests/engine/test_labeller.py", "tests/steering/test_labelling.py"

OUTLOOK, INPUT = "tests/models/networks/test_outlook.py", "tests/models/fitting/test_input.py"

PEPTIDE, PLANNER = "tests/apps/molecular_dynamics/test_peptide.py", "tests/engine/test_planner.py"
ENDING, BAG = "tests/engine/test_ending.py", "tests/engine/test_bag.py"

BUGS = [
    Bug("apps/molecular_dynamics/peptide.py", "@ there > 0:", "@ there > 9:", PEPTIDE),
    Bug("apps/molecular_dynamics/relaxation.py", "        simulation.begin(simulation.read().positions, None, SEED)",
        "        pass", PEPTIDE),
    Bug("models/networks/atom_graphs.py", "isinstance(each, CFConv)", "False", ATOMS),
    Bug("models/steps/optimizers.py", "torch.zeros_like(each)", "torch.ones_like(each)",
        "tests/models/steps/test_optimizers.py"),
    Bug("models/networks/vectors.py", "* self.targets_spread + self.targets_mean", "",
        "tests/models/networks/test_vectors.py"),
    Bug("models/fitting/fit.py", '"data": hashlib.sha256(_some_rows(data)).hexdigest()[:16]', '"data": ""',
        "tests/models/fitting/test_checkpoint.py"),
    Bug("steering/opes.py", "widths.astype(np.float32), height[kept] / height.sum()",
        "widths.astype(np.float32), (height[kept] / height.sum()).astype(np.float32)", "tests/steering/test_opes.py"),
    Bug("worker/calls.py", 'call_seed(directory.settings()["seed"], call)', "0", PLANNER),
    Bug("stages/content.py", "for p in (fields, *more)", "for p in (each.model_dump(),)", PLANNER),
    Bug("steering/scores.py", "view.flags.writeable = False", "pass", "tests/steering/test_policies.py"),
    Bug("worker/training.py", "if name := judging.changed():", "if name := None:", "tests/worker/test_training.py"),
    Bug("journal/modes/held_out.py", "if not self.state.run.scattered:", "if True:", "tests/journal/test_segments.py"),
    Bug("steering/protocols.py", "return self.goal and bool(self.reason(progress))", "return self.goal",
        "tests/steering/test_stop.py"),
    Bug("journal/standing.py", "for name, values in self.metrics.items() if self.has_value(name)",
        "for name, values in self.metrics.items()", ENDING),
    Bug("engine/bag.py", "or self._others_go_on):", "):", BAG),
    Bug("engine/campaign.py", "if not same(getattr(params, name), getattr(again, name))", "if False",
        "tests/engine/test_bad_input.py"),
    Bug("journal/state.py", "self.walkers = dict(sorted(self.walkers.items()))", "pass",
        "tests/journal/test_segments.py"),
    Bug("apps/atoms/labels.py", "get_forces(apply_constraint=False)", "get_forces()", ATOMS),
    Bug("apps/atoms/labels.py", 'results.get("free_energy", energy)', 'results.get("energy", energy)', ATOMS),
    Bug("dashboard/rare_event.py", "* each) / scale.divisor", "* each)", "tests/engine/test_splitting.py"),
    Bug("data/clusters.py", r"(_\d+)?", "(_.+)?", "tests/export/test_export.py"),
    Bug("data/yardsticks.py", "counted = counted + 0.0", "pass", "tests/data/test_yardsticks.py"),
    Bug("executors/parsl_config.py", '[f"export STEERSMAN_BLOCK_ENDS={ends}", *lines]',
        '[*lines, f"export STEERSMAN_BLOCK_ENDS={ends}"]', "tests/executors/test_schedulers.py"),
    Bug("worker/tasks.py", "min(ends, default=None)", "ends[0] if ends else None", "tests/worker/test_tasks.py"),
    Bug("dashboard/live/views/failures.py", "for name in names[-MOST_SEGMENTS:]]", "for name in names[:MOST_SEGMENTS]]",
        "tests/dashboard/test_live.py"),
    Bug("data/facts.py", 'f"metric {name}" if name in others else name', "name", "tests/data/test_facts.py"),
    Bug("data/repair.py", "yield Session(t=record.t", "return; yield Session(t=record.t", "tests/data/test_losses.py"),
    Bug("models/networks/pixels.py", "np.array(weights)[labels", 'np.array(model.card["weights"])[labels',
        "tests/models/networks/test_pixels.py"),
    Bug("steering/audits.py", "np.where(k > 0, k, 1)", "np.maximum(k, 1)", AUDITS),
    Bug("models/networks/outlook.py", "float(left / whole) if whole", "float(left) if whole", OUTLOOK),
    Bug("models/sphere/harmonics.py", "math.sqrt(2) * spread[0, 0], 0", "spread[0, 0], 0", CLIMATE),
    Bug("models/sphere/harmonics.py", "min(last, self.truncation)", "last", CLIMATE),
    Bug("models/ranks/local_sgd.py", "min(len(parts(share_of(samples, rank, ranks), batch)) for rank in range(ranks))",
        "-(-(samples // ranks) // batch)", INPUT),
    Bug("stages/start.py", "point_rng(seed)", "np.random.default_rng(seed)", "tests/stages/test_start.py"),
    Bug("apps/alloys/lattice.py", "np.sort(d)", "np.sort(atoms.get_all_distances(mic=True)[0])[1:]",
        "tests/apps/alloys/test_lattice.py"),
    Bug("data/reweighing.py", "(version > 0) & counted(scores)", "version > 0", "tests/analysis/test_biased.py"),
    Bug("engine/trainer.py", "and rule.due(self._frames, known, used=used)", "", "tests/engine/test_trainer.py"),
    Bug("engine/trainer.py", "frames=self._frames, labels", "frames=state.frames, labels",
        "tests/engine/test_trainer.py"),
    Bug("analysis/one_system.py", "> 1:\n            yield _said(name, \"\", several)", "> 2:\n            pass",
        "tests/analysis/test_one_system.py"),
    Bug("models/networks/forecaster.py", "last if same else None", "last", "tests/models/networks/test_forecasters.py"),
    Bug("models/networks/perceptron.py", ".clamp(0, 4)", ".clamp(0, 0)", PERCEPTRON),
    Bug("journal/standing.py", "self.run.gpus if session.gpus is None else session.gpus", "self.run.gpus",
        "tests/cli/test_display.py"),
    Bug("stages/segment.py", "self.asked.append(self.frames - 1)", "self.asked.append(self.frames)", BATCH),
    Bug("stages/batch.py", "if not self._over:\n            super().state", "if 1:\n            super().state", BATCH),
    Bug("apps/program.py", "            self._state = {}\n        self._next", "        self._next", PROGRAM),
    Bug("apps/atoms/dynamics.py", "                out.state()\n", "", ATOMS),
    Bug("apps/atoms/dynamics.py", '{"p_eps", "force_eps"}', '{"p_eps"}', ATOMS),
    Bug("models/networks/potential.py", "+= float(np.mean(energy - model.said(positions, cell)[0]))", "+= 0.0", ATOMS),
    Bug("models/networks/potential.py", " * len(deviation) / len(self.numbers)", "", ATOMS),
    Bug("steering/splitting.py", "round(float(weight.sum()), 9) if newest else 1.0", "1.0", SPLITTING),
    Bug("steering/splitting.py", "< WHOLE]", "< 9]", SPLITTING),
    Bug("journal/scoreboard.py", ", *[STOPPED] * state.mode(Ensemble).weighs", "", "tests/journal/test_segments.py"),
    Bug("steering/audits.py", "stdtrit(free, (1 + LEVEL) / 2)", "1.96", AUDITS),
    Bug("executors/site.py", "if wanted.mpi_walkers and self.scheduler", "if self.simulation.mpi and self.scheduler",
        "tests/executors/test_site.py"),
    Bug("models/networks/perceptron.py", "_expect_same(type(cv).__name__, model(x), _call(cv, x))", "pass", PERCEPTRON),
    Bug("models/networks/perceptron.py", " + shift * given.sum(axis=1)", "", PERCEPTRON),
    Bug("models/networks/perceptron.py", "np.eye(len(offsets)), shift.numpy()", "np.eye(len(offsets)), 0 * offsets",
        PERCEPTRON),
    Bug("dashboard/live/frame.py", "elif atoms.known(watched.history):", "elif False:", "tests/dashboard/test_film.py"),
    Bug("dashboard/live/frame.py", " or atoms.known(watched.history)", "", "tests/dashboard/test_film.py"),
    Bug("models/networks/potential.py", "(energy - self.reference).float()",
        "(energy.float() - self.reference.float())", "tests/apps/atoms/test_atoms.py"),
    Bug("models/networks/potential.py", 'float(results["energy"]) + zero', 'float(results["energy"])',
        "tests/apps/atoms/test_atoms.py"),
    Bug("models/networks/potential.py", "zero / len(self.numbers), self.numbers", "0.0, self.numbers",
        "tests/apps/atoms/test_atoms.py"),
    Bug("engine/labeller.py", "if asked.frame not in under_way:", "if asked.label not in self._works:", LABELLER),
    Bug("stages/kinds/label.py", "number not in labels.answers or bool(labels.answers[number].group)", "True",
        LABELLER),
    Bug("stages/kinds/label.py", "if models.under_way and not models.newest:", "if not models.newest:", LABELLER),
    Bug("stages/kinds/label.py", "(soon and not set(", "(not set(", LABELLER),
    Bug("stages/kinds/label.py", "if models.under_way or last < rule.last", "if last < rule.last", LABELLER),
    Bug("stages/kinds/label.py", "final=math.isinf(self._next_training(state, rules))", "final=False", LABELLER),
    Bug("stages/kinds/label.py", "visited[~np.isin(segments, ", "visited[~np.isin(segments * 0 - 1, ", LABELLER),
    Bug("steering/labelling.py", "drawn[np.sort(first)[:most]]", "drawn[:most]", LABELLING),
    Bug("journal/modes/labels.py", "each.drawn and (each.model, each.version) == (model, version)", "False", LABELLER),
    Bug("journal/modes/labels.py", "(each.walker, each.number) for each in running]", "(0, 0)]", LABELLER),
    Bug("journal/modes/labels.py", "asked.version == function and (", "(", LABELLER),
    Bug("journal/modes/labels.py", "(answer.error is not None or not answer.group)", "answer.error is not None",
        LABELLER),
    Bug("engine/labeller.py", "self._labels.version = stage.version", "pass", LABELLER),
    Bug("engine/labeller.py", "CHANGED if asked.version != self._stage.version else", "", LABELLER),
    Bug("engine/labeller.py", "asked.drawn and self._labels.failed(asked)", '""', LABELLER),
    Bug("journal/modes/labels.py", "return last - others if last is not None and last > others else None",
        "return last", LABELLER),
    Bug("models/networks/potential.py", "return alike and super()", "return super()", ATOMS),
    Bug("models/networks/potential.py", "zero = 0.0", "pass", ATOMS),
    Bug("apps/atoms/dynamics.py", "if pressure_bar is not None or not isinstance(each, FixAtoms)]", "if False]", ATOMS),
    Bug("stages/kinds/label.py", "(sum(drawn), len(drawn))", "(0, 0)", LABELLER),
    Bug("steering/labelling.py", "max(most - due, 1)", "most", LABELLING),
    Bug("analysis/comparison/tuning.py", "for eighths in due]  #", "for eighths in due[-1:]]  #",
        "tests/analysis/test_tuning.py"),
    Bug("analysis/comparison/tuning.py", "_at(curve, 1 / max(share, 1.0))", "_at(curve, 1.0)",
        "tests/analysis/test_tuning.py"),
    Bug("analysis/comparison/arms.py", 'counted <= {"hours", "gpu_hours"}', "False", "tests/analysis/test_arms.py"),
    Bug("steering/splitting.py", "kept = windows > next(uneven, windows.max(initial=0))",
        "kept = np.isin(windows, list(uneven))", "tests/steering/test_splitting.py"),
    Bug("worker/walker.py", 'if run.start and "model" in vars(run.start)', "if True", "tests/worker/test_walker.py"),
    Bug("analysis/trajectories.py", "steps[first] = time[first]", "", "tests/analysis/test_pieces.py"),
    Bug("executors/parsl_config.py", "workers=most, blocks", "workers=1, blocks", "tests/executors/test_together.py"),
    Bug("executors/parsl_config.py", " + beside * (role", " + 0 * (role", "tests/executors/test_together.py"),
    Bug("executors/preflight.py", "* one.blocks * one.at_once for", "* one.blocks for", "tests/engine/test_files.py"),
    Bug("checks/plan.py", " * simulation.at_once)", ")", "tests/engine/test_files.py"),
    Bug("executors/site.py", "if nodes <= most), math.inf)", "), math.inf)", "tests/executors/test_machines.py"),
    Bug("engine/scorer.py", ", frames=len(self.scores())", ", frames=0", "tests/engine/test_scorer.py"),
    Bug("dashboard/live/views/models.py", "spreads[1][there], errors[1][there]", "spreads[1], errors[1]",
        "tests/dashboard/test_live.py"),
    Bug("engine/people.py", "if isinstance(part, BaseModel)}", "if False}", "tests/engine/test_bad_input.py"),
    Bug("engine/labeller.py", "(asked.label).exists() and not measured:", "(asked.label).exists():", LABELLER),
    Bug("journal/modes/labels.py", "for n, each in self.asked.items() if each.version == version]",
        "for n in self.asked]", LABELLER),
    Bug("stages/kinds/label.py", "labels.asked_by(self.version)", "labels.asked", LABELLER),
    Bug("stages/kinds/label.py", "if self.error and trial.workflow.training:", "if False:",
        "tests/checks/test_trying.py"),
    Bug("engine/labeller.py", "self._check(values)", "pass", LABELLER),
    Bug("journal/modes/labels.py", "self._bounds.get((self.version, self.state.models.newest), WRONG)",
        "[WRONG, *self._bounds.values()][-1]", LABELLER),
    Bug("journal/modes/labels.py", "for frame in frames if frame[:2] not in asked}", "for frame in frames}", LABELLER),
    Bug("worker/labelling.py", "elif file.exists():", "elif False:", "tests/worker/test_labelling.py"),
    Bug("journal/modes/labels.py", "asked.drawn and asked.model == newest", "asked.drawn", LABELLER),
    Bug("journal/modes/labels.py", "asked.version != version or lost", "lost", LABELLER),
    Bug("stages/loading.py", "and workflow.labelling.error and", "and", "tests/stages/test_parameters.py"),
    Bug("data/tables.py", " and name not in taken", "", LABELLER),
    Bug("store/window.py", "if name in self.answers:", "if name not in self.frames:", LABELLER),
    Bug("steering/labelling.py", "_apart(scores, visited, due", "_apart(scores, visited[~asked[visited]], due",
        LABELLING),
    Bug("steering/labelling.py", "(doubt > self.above) & ~asked", "doubt > self.above", LABELLING),
    Bug("steering/labelling.py", "distance = np.minimum(distance, ((x[among] - x[among[far]]) ** 2).sum(axis=1))",
        "pass", LABELLING),
    Bug("steering/protocols.py", "if all(reasons) else None", "if any(reasons) else None", LABELLING),
    Bug("worker/known.py", "or not np.isfinite(array).all()", "", "tests/worker/test_labelling.py"),
    Bug("steering/splitting.py", "np.searchsorted(held, cuts", "np.searchsorted(held, cuts[0] + 0 * cuts", SPLITTING),
    Bug("steering/splitting.py", "rng.random() * of_part", "0.5 * of_part", SPLITTING),
    Bug("steering/splitting.py", "np.interp(np.arange(members + 1) / members * line[-1], line, held)",
        "np.arange(members + 1) / members * held[-1]", SPLITTING),
    Bug("steering/scores.py", "self.round - first[self.root] + 1", "self.round", "tests/engine/test_splitting.py"),
    Bug("steering/splitting.py", "ndtr(h) - 2 * owens_t", "ndtr(h) - owens_t", SPLITTING),
    Bug("steering/splitting.py", "self._goes_on(int(ends[i]), w, weight[i]", "self._goes_on(int(ends[i]), weight[i], w",
        SPLITTING),
    Bug("steering/splitting.py", "counted = scores.weight[over] * beyond", "counted = beyond / self.members",
        SPLITTING),
    Bug("steering/splitting.py", "scores.root[over]", "np.arange(len(over))", SPLITTING),
    Bug("worker/tasks.py", "torch.optim.SGD([torch.zeros(1, requires_grad=True)]).step()", "torch",
        "tests/worker/test_tasks.py"),
    Bug("dashboard/rare_event.py", "column(rare.outcome)[last]", "column(rare.outcome)[before]",
        "tests/engine/test_splitting.py"),
    Bug("models/networks/outlook.py", "weights, groups = inputs[fate.rows], fate.weight",
        "weights, groups = inputs[fate.rows], None", OUTLOOK),
    Bug("journal/modes/ensemble.py", "= self._root(start)", "= start.start",
        "tests/engine/test_splitting.py"),
    Bug("stages/batch.py", "name: np.array(values) for", "name: values for", BATCH),
    Bug("stages/batch.py", "            self.fail(error)\n", "            raise\n", BATCH),
    Bug("worker/walker.py", "if order is not None and order.set != first.set:", "if False:", BATCH),
    Bug("worker/walker.py", "                run.write()", "                pass", BATCH),
    Bug("worker/publisher.py", "self._space.ack([held.taken for held in done])",
        "[self._space.ack(held.taken) for held in done]", "tests/worker/test_walker.py"),
    Bug("engine/ending.py", "not state.whole[1].simulated_s", "not state.simulated", "tests/engine/test_ending.py"),
    Bug("apps/shallow_water/solver.py", "torch.split(later, len(before), 2)[2][0, 0] = mass", "pass", HYBRID),
    Bug("apps/shallow_water/solver.py", "if corrector and (made", "if False and (made", HYBRID),
    Bug("apps/shallow_water/plain_scheme.py", "2 * late - early", "late", HYBRID),
    Bug("models/networks/forecaster.py", "part[:, 0] = step(torch.from_numpy(part[:, 0])).numpy()", "pass", HYBRID),
    Bug("steering/audits.py", "n * (said[mine].mean() + error.mean())", "n * said[mine].mean()", AUDITS),
    Bug("steering/audits.py", "(1 / m - 1 / n)", "(1 / n)", AUDITS),
    Bug("apps/shallow_water/forcing.py", "for each in generators], 1)",
        "for each in generators[:1] * len(generators)], 1)", CLIMATE),
    Bug("apps/shallow_water/forcing.py", "rates[:, :, 1] +=", "rates[:, :, 2] +=", CLIMATE),
    Bug("engine/scorer.py", "self._coming is None and (", "getattr(self._coming, 'model', -1) != newest and (",
        "tests/engine/test_learning.py"),
    Bug("engine/learning.py", "begin=not (self._turns and self.scorer.goes_first)", "begin=True",
        "tests/engine/test_learning.py"),
    Bug("engine/scorer.py", "max(1, batch // 2)", "batch", "tests/engine/test_learning.py"),
    Bug("engine/scorer.py", "turns[::-1] if self._newer else turns", "turns", "tests/engine/test_learning.py"),
    Bug("steering/weighted_ensemble.py", "/ np.bincount(number, weights=scores.weight[order[first]])[number] *", "*",
        "tests/steering/test_weighted_ensemble.py"),
    Bug("analysis/comparison/verdicts.py", "runs.draws and plain.continued", "runs.draws or plain.continued",
        "tests/analysis/test_verdicts.py"),
    Bug("apps/molecular_dynamics/simulation.py", "if simulation.unusual(state, begun) and parts <",
        "if parts < 0 and parts <", HOT),
    Bug("apps/molecular_dynamics/biasing.py", "context.setPeriodicBoxVectors(*state", "(*state", HOT),
    Bug("apps/molecular_dynamics/noise.py", "if self._lists:", "if False:", DYNAMICS),
    Bug("apps/molecular_dynamics/noise.py", "+ self._state(seed)", "+ self._state(2)", DYNAMICS),
    Bug("executors/workers.py", "i * len(self.gpu_names) // among", "i % len(self.gpu_names)", SITES),
    Bug("executors/site.py", "rest -= of_walkers", "pass", SITES),
    Bug("executors/site.py", '"simulation" if self.is_beside(role) else role', "role", SITES),
    Bug("apps/molecular_dynamics/structure_file.py", "if apart_nm < SHORTEST_BOND_NM:", "if False:",
        "tests/apps/molecular_dynamics/test_structure_file.py"),
    Bug("engine/planner.py", "popleft())\n        self._record_asked()\n", "popleft())\n",
        "tests/engine/test_planner.py"),
    Bug("engine/campaign.py", "if directory.ready.exists():", "if False:", "tests/engine/test_mending.py"),
    Bug("engine/mending.py", "path.unlink()  #", "pass  #", "tests/engine/test_mending.py"),
    Bug("stages/content.py", 'f"{each.dtype} {tuple(each.shape)}"', 'f"{tuple(each.shape)}"',
        "tests/engine/test_planner.py"),
    Bug("stages/outline.py", "            self._take(codes, function.__globals__)\n", "            pass\n",
        "tests/stages/test_outline.py"),
    Bug("stages/outline.py", "code.co_name, code.co_code,", "code.co_name,", "tests/stages/test_outline.py"),
    Bug("stages/content.py", "return digest(one) == digest(other)", "return bool(one == other)",
        "tests/calls/test_run.py"),
    Bug("worker/tasks.py", "with children_end(), planned_by(NOBODY):", "with children_end():",
        "tests/worker/test_tasks.py"),
    Bug("journal/file.py", "            os.fsync(self._file)\n", "            pass\n", "tests/journal/test_file.py"),
    Bug("journal/standing.py", "session.after or session.t for", "session.t for", "tests/journal/test_state.py"),
    Bug("journal/state.py", "training.epoch = None", "pass", "tests/journal/test_state.py"),
    Bug("engine/run.py", "pid=os.getpid(), after=after,", "pid=os.getpid(),", "tests/engine/test_mending.py"),
    Bug("engine/run.py", "(end)\n        self.recorder.journal.sync()\n", "(end)\n",
        "tests/engine/test_power.py"),
    Bug("data/task_results.py", 'r"[biufcSU]\\d+"', 'r"[biufcSUO]\\d*"', "tests/data/test_task_results.py"),
    Bug("journal/modes/biases.py", "if sha256 and hashlib", "if not sha256 and hashlib",
        "tests/analysis/test_biased.py"),
    Bug("engine/planner.py", 'known.sha256 in ("", digest)', "known.sha256 == digest", "tests/engine/test_planner.py"),
    Bug("engine/planner.py", "        file.unlink(missing_ok=True)  #", "        #", "tests/engine/test_planner.py"),
    Bug("store/frames.py", "        _check_walkers(*group)\n", "", "tests/cli/test_damaged_frames.py"),
    Bug("models/model.py", "            if not trusted:\n", "            if False:\n", "tests/models/test_model.py"),
    Bug("system/registry.py", ' or entry.name.startswith("_")', "", "tests/test_outside.py"),
    Bug("dashboard/live/server.py", "replace(state, name=watched.key)", "state", "tests/dashboard/test_live.py"),
    Bug("journal/calls.py", "len(name) >= min(SHOWN, len(call.key)) and ", "", "tests/engine/test_planner.py"),
    Bug("steering/draws.py", "for seed in count(1))", "for seed in count(int(rng.integers(2**31))))",
        "tests/steering/test_draws.py"),
    Bug("analysis/markov.py", "OVER = 1 ", "OVER = 3 ", "tests/analysis/test_markov.py"),
    Bug("engine/campaign.py", "if not trust.trusted(directory.workflow):", "if False:", "tests/engine/test_birth.py"),
    Bug("journal/run_directory.py", "fcntl.flock(birth, fcntl.LOCK_EX | fcntl.LOCK_NB)", "pass",
        "tests/engine/test_birth.py"),
    Bug("data/repair.py", "frames += sum(unknown.values())", "frames += 0", "tests/data/test_verify.py"),
    Bug("data/repair.py", 'if row["start"] in self._known or', 'if row["start"] not in self._known or',
        "tests/data/test_verify.py"),
    Bug("dashboard/live/gallery.py", "        self._scan()\n        return list", "        return list",
        "tests/dashboard/test_live.py"),
    Bug("engine/oddities.py", "if min(parent) >= 0 and before", "if min(parent) < 0 and before",
        "tests/engine/test_oddities.py"),
    Bug("steering/ask.py", "given = {name: each.value for name, each in self.vocs.constants.items()} | dict(point)",
        "given = dict(point)", "tests/steering/test_ask.py"),
    Bug("steering/ask.py", "AT_RANDOM if drawn else", "AT_RANDOM if drawn or not results else",
        "tests/steering/test_ask.py"),
    Bug("steering/ask.py", "low - slack <= value <= high", "low - slack <= value or value <= high",
        "tests/steering/test_ask.py"),
    Bug("journal/scoreboard.py", "keep = np.lexsort((row, start_of))", "keep = np.lexsort((row, walker))",
        "tests/journal/test_segments.py"),
    Bug("journal/state.py", "            self.valueless.discard(name)\n", "", "tests/data/test_facts.py"),
    Bug("steering/weighted_ensemble.py", "(weight * chance, length, weight)", "(weight, length, weight)", ENSEMBLE),
    Bug("steering/weighted_ensemble.py", "(odds, share, weight,", "(odds, share, share,", ENSEMBLE),
    Bug("steering/weighted_ensemble.py", "odds[none] = odds[~none].min() - STEP", "pass", ENSEMBLE),
    Bug("steering/lives.py", "gammaincinv(left + 1, 1 - tail)", "gammaincinv(left, 1 - tail)",
        "tests/steering/test_lives.py"),
    Bug("models/networks/committor.py", "apart + GENTLE * (odds**2).mean()", "apart",
        "tests/models/networks/test_committor.py"),
    Bug("models/networks/committor.py", "_within(chance, of_y) - _within(now, of_x)", "chance - now",
        "tests/models/networks/test_committor.py"),
    Bug("models/networks/committor.py", "(weight[:, 0] * change**2)", "(change**2)",
        "tests/models/networks/test_committor.py"),
    Bug("steering/weighted_ensemble.py", "known = 2 + number[stayed].max(initial=-1)", "known = 1",
        "tests/steering/test_weighted_ensemble.py"),
    Bug("steering/weighted_ensemble.py", "ends) if self.target in scores.values else",
        "ends) if self.score in scores.values else", "tests/steering/test_weighted_ensemble.py"),
    Bug("steering/reweighting.py", "return len(np.unique(piece[change < 0])), len(np.unique(piece[change > 0]))",
        "return int((change < 0).sum()), int((change > 0).sum())", "tests/steering/test_reweighting.py"),
    Bug("stages/start.py", "if seen and name not in seen:", "if False:", "tests/stages/test_start.py"),
    Bug("steering/reweighting.py", "side = np.where(state & other, inner,", "side = np.where(state & other, 0,",
        "tests/steering/test_reweighting.py"),
    Bug("engine/scorer.py", "return known is None or known.failures < self._workflow.most_failures", "return False",
        "tests/engine/test_scorer.py"),
    Bug("worker/tasks.py", "ranks = max(1, refused.full)", "ranks = 1", "tests/worker/test_tasks.py"),
    Bug("store/frames.py", "if not 0 <= first <= end <= self.rows:", "if False:", "tests/data/test_run.py"),
    Bug("data/frames.py", "int(row.min()), int(row.max()) + 1))", "0, int(row.max()) + 1))", "tests/data/test_run.py"),
    Bug("data/export.py", "reach = max(np.abs(positions).max(), np.ptp(positions, axis=0).max())",
        "reach = np.abs(positions).max()", "tests/export/test_units.py"),
    Bug("data/export.py", "NOISE = 1e-12", "NOISE = 1e-6", "tests/export/test_units.py"),
    Bug("stages/segment.py", 'variables["time"] = time_now', 'variables["time"] = given',
        "tests/stages/test_segment.py"),
    Bug("data/overview.py", "spends = all(", "spends = any(",
        "tests/cli/test_display.py"),
    Bug("models/ranks/forkserver.py", "end(self._process.pid, GRACE_S, group=True)", "self._process.kill()",
        "tests/models/ranks/test_forkserver.py"),
    Bug("apps/command.py", 'if rest := getattr(reader, "rest", None):', "if rest := None:",
        "tests/apps/test_command.py"),
    Bug("journal/state.py", "self._reopen()\n        for model", "for model", "tests/journal/test_state.py"),
    Bug("journal/standing.py", 'self.end, self.wishes.finish = None, ""', "self.end = None",
        "tests/journal/test_state.py"),
    Bug("journal/standing.py", "paused = min(record.waited_s,", "paused = min(0.0,", "tests/journal/test_state.py"),
    Bug("dashboard/live/watched.py", "elapsed(table.began)", "(table.began - history.state.run.t)",
        "tests/dashboard/test_following.py"),
    Bug("stages/segment.py", "if len(times) and before > 0 and math", "if len(times) and before > 9e9 and math",
        "tests/engine/test_oddities.py"),
    Bug("engine/oddities.py", "changes.sum() < CHANGES and", "False and", "tests/engine/test_oddities.py"),
    Bug("engine/oddities.py", 'one[1]["seed"] == other[1]["seed"] or not rows:', "not rows:",
        "tests/engine/test_oddities.py"),
    Bug("analysis/markov.py", "SHIFT, MATTERS = 2.0,", "SHIFT, MATTERS = 200.0,", "tests/analysis/test_markov.py"),
    Bug("stages/modules.py", "if path is None and name in self.names else None", "if path is None else None",
        "tests/stages/test_modules.py"),
    Bug("analysis/comparison/verdicts.py", "runs.own.count(0),", "0,", "tests/analysis/test_verdicts.py"),
    Bug("data/stored.py", "(np.arange(number) + count * GOLDEN % 1) * span.rows / number", "np.arange(number)",
        "tests/data/test_stored.py"),
    Bug("data/segment_table.py", "if state.blind:", "if False:", "tests/data/test_segment_table.py"),
    Bug("journal/pace.py", "since = done.hours - max(", "since = 0 * max(", "tests/cli/test_display.py"),
    Bug("journal/state.py", "                self.pace.begin(record.t, self.worked(record.t))\n", "",
        "tests/cli/test_display.py"),
    Bug("analysis/answer.py", '*said["notes"], *(said["problems"] or', '*([*said["notes"], *said["problems"]] or',
        "tests/analysis/test_markov.py"),
    Bug("dashboard/live/page/working.js", '  paused: "yellow",\n', "", "tests/dashboard/test_page.py"),
    Bug("journal/standing.py", "self.reads is False and not self.exact and", "self.reads is False and",
        "tests/data/test_segment_table.py"),
    Bug("data/yardsticks.py", "if not (history.state.run.rounds and len(starts)):", "if True:",
        "tests/data/test_yardsticks.py"),
    Bug("data/yardsticks.py", "np.arange(len(at)) - first[which]", "np.arange(len(at))",
        "tests/data/test_yardsticks.py"),
    Bug("steering/protocols.py", "return self.rank(scores, rng) if self.draws else super()", "return super()",
        "tests/steering/test_draws.py"),
    Bug("journal/state.py", "self.ended -= Counter([segment.how])", "self.ended -= Counter()",
        "tests/journal/test_state.py"),
    Bug("stages/segment.py", "if np.ma.is_masked(value):", "if False:", "tests/stages/test_segment.py"),
    Bug("stages/versions.py", "(*loops[1], *unused)", "unused", "tests/stages/test_versions.py"),
    Bug("analysis/markov.py", "np.where((known >= 0) & (known < NEVER * lag), known, np.inf)", "known",
        "tests/analysis/test_markov.py"),
    Bug("steering/streams.py", "_rng(seed, _STARTS, number)", "_rng(seed, _STARTS, 0)", STARTS),
    Bug("steering/streams.py", "= 0, 1, 6, 7", "= 0, 0, 6, 7", STARTS),
    Bug("steering/streams.py", "SeedSequence(seed, spawn_key=(stream, number))",
        "SeedSequence(seed + number, spawn_key=(stream,))", STARTS),
    Bug("steering/protocols.py", "np.argsort(scores.starts[order], kind", "np.argsort(scores.starts, kind",
        "tests/steering/test_policies.py"),
    Bug("steering/scores.py", "low, high = x.min(axis=0), x.max(axis=0)", "low, high = x.min(), x.max()",
        "tests/steering/test_policies.py"),
    Bug("steering/pruning.py", "rows[-self.patience :]", "rows[: self.patience]", "tests/steering/test_pruning.py"),
    Bug("steering/stop.py", "window = len(values) - self.last\n", "window = len(values) - self.last + 1\n",
        "tests/steering/test_stop.py"),
    Bug("steering/bias.py", "width = self.widths[:, dimension].astype(float) * math.sqrt(2 * math.pi)",
        "width = math.sqrt(2 * math.pi)", BIAS),
    Bug("journal/modes/labels.py", 'if "label" not in self.state.run.stages:', "if not self.asked:",
        "tests/engine/test_labeller.py"),
    Bug("worker/walker.py", "self._newest() > order.with_model", "self._newest() > 0", "tests/engine/test_outdated.py"),
    Bug("engine/crew.py", "self._space.put(NEWEST, newest)", "self._space.put(NEWEST, 1)",
        "tests/engine/test_outdated.py"),
    Bug("steering/bias.py", "some = self.centres[first :", "some = self.centres[0:][0 * first :", BIAS),
    Bug("steering/bias.py", "bias_factor - 1 if self.exploring", "bias_factor if self.exploring", BIAS),
    Bug("steering/opes.py", "before = scores.biased_by != scores.model", "before = scores.biased_by == scores.model",
        BIAS),
    Bug("steering/opes.py", "scores = scores.only(cold)", "pass", BIAS),
    Bug("steering/opes.py", "(count - new)", "count", BIAS),
    Bug("apps/molecular_dynamics/simulation.py", "initial(start, still=cooled)", "initial(start)", HOT),
    Bug("apps/molecular_dynamics/simulation.py", "timestep_fs / (2 if start.attempt else 1)", "timestep_fs", HOT),
    Bug("apps/molecular_dynamics/biasing.py", "rounding = 8 * float(", "rounding = 0 * float(", HOT),
    Bug("apps/molecular_dynamics/context.py", "coordinate or settings.trans", "coordinate", HOT),
    Bug("steering/decide.py", "{HOT} if self.bias else set()", "set()", "tests/worker/test_training.py"),
    Bug("engine/trainer.py", "None if last or", "None if", "tests/engine/test_trainer.py"),
    Bug("stages/rules.py", "not used and frames >=", "frames >=", "tests/engine/test_trainer.py"),
    Bug("stages/rules.py", "if first > last:", "if False:", "tests/stages/test_workflow.py"),
    Bug("worker/training.py", '"accepted": most is None, "reason": reason', '"accepted": True, "reason": reason',
        "tests/worker/test_training.py"),
    Bug("steering/opes.py", "z = _within_reach(z, periods)", "z = np.asarray(z)", BIAS),
    Bug("steering/opes.py", "[: max(len(steps) - ASTRAY, 1)]", "", BIAS),
    Bug("steering/importance.py", "!= 0)[::-1]", "!= 0)", RARE),
    Bug("steering/importance.py", "<< 32) + scores.segment[rows]", "<< 32)", RARE),
    Bug("journal/modes/held_out.py", "self.state.mode(Ensemble).columns(starts)[\"root\"]", "starts",
        "tests/journal/test_segments.py"),
    Bug("journal/modes/held_out.py", "if start.round and start.draw:", "if start.round:",
        "tests/journal/test_segments.py"),
    Bug("store/lineages.py", " or table.exact[segment] != 1", "", LINEAGES),
    Bug("store/lineages.py", "self.restored[at] & ", "", LINEAGES),
    Bug("store/lineages.py", " and self._alike(parent, (walker, segment))", "", LINEAGES),
    Bug("store/lineages.py", "self._table(parent).end[maker] == row + 1", "True", LINEAGES),
    Bug("store/lineages.py", " and table.ended[segment] == FINISHED", "", LINEAGES),
    Bug("store/lineages.py", "(self.root if before < 0 else self.own)[at]", "self.own[at]", LINEAGES),
    Bug("store/lineages.py", "self.root if before < 0 else self.own", "self.root", LINEAGES),
    Bug("store/lineages.py", "np.where(up, x[self.end[at] - 1], 0.0)",
        "np.where(up, x[self.end[at] - 1] - x[0], 0.0)", LINEAGES),
    Bug("store/window.py", "[pieces.span[member]]", "[0 * pieces.span[member]]", LINEAGES),
    Bug("journal/published.py", '.get("weight", weight)', '.get("none", weight)',
        "tests/engine/test_weighted_ensemble.py"),
    Bug("stages/rules.py", "return Doubling(first, first, last)", "return Doubling(first, first)",
        "tests/stages/test_workflow.py"),
    Bug("stages/rules.py", "return Every(number, first, last,", "return Every(number, first, math.inf,",
        "tests/stages/test_workflow.py"),
    Bug("steering/audits.py", "(count[where] - 2)", "(count[where] - 1)", "tests/steering/test_audits.py"),
    Bug("steering/stop.py", "if window < 1:", "if window < 0:", "tests/steering/test_stop.py"),
    Bug("steering/stop.py", "window - first)", "window - first - 1)", "tests/steering/test_stop.py"),
    Bug("steering/opes.py", "weight.sum() ** 2 / (weight**2).sum()", "weight.sum() / (weight**2).sum()", BIAS),
    Bug("steering/reweighting.py", "np.log(counts)[:, None] - energies", "np.log(counts)[:, None] + energies", WEIGHTS),
    Bug("steering/reweighting.py", "np.log(below.sum() / above.sum())", "np.log(above.sum() / below.sum())", WEIGHTS),
    Bug("steering/reweighting.py", "np.where(same, np.diff(side[known]), 0)", "np.diff(side[known])",
        WEIGHTS),
    Bug("steering/weighted_ensemble.py", "i if rng.random() * (a + b) < a else j",
        "i if rng.random() * (a + b) < b else j", ENSEMBLE),
    Bug("steering/weighted_ensemble.py", "np.flatnonzero(np.asarray(there, bool)[order])[::-1]",
        "np.flatnonzero(np.asarray(there, bool)[order])", ENSEMBLE),
    Bug("analysis/comparison/statistics.py", "share <= 0.5 + 1e-12", "share < 0.5", STATISTICS),
    Bug("analysis/comparison/statistics.py", "pairs.std(ddof=1)", "pairs.std()", STATISTICS),
    Bug("analysis/comparison/statistics.py", "other.of(seeds)) for seeds",
        "other.of(rng.integers(n, size=n))) for seeds", VERDICTS),
    Bug("analysis/comparison/verdicts.py", "better, worse = worse, better", "pass", VERDICTS),
    Bug("analysis/comparison/verdicts.py", "curve.spent[there.argmax()] if there.any() else curve.spent[-1]",
        "curve.spent[there.argmax()]", VERDICTS),
    Bug("analysis/comparison/verdicts.py", "end = min(curve.spent[-1] for each in",
        "end = max(curve.spent[-1] for each in", VERDICTS),
    Bug("analysis/comparison/tables.py", "runs.cost[part] / len(runs.seeds)", "runs.cost[part]", VERDICTS),
    Bug("analysis/comparison/campaigns.py", "process.returncode or not job.finished",
        "process.returncode and not job.finished", "tests/analysis/test_arms.py"),
    Bug("analysis/comparison/tuning.py", "sign = 1 if study", "sign = -1 if study", "tests/analysis/test_tuning.py"),
    Bug("analysis/trajectories.py", "row == segments.end[parent] - 1", "row == segments.end[parent]", PIECES),
    Bug("analysis/trajectories.py", "begins[parent] + row - segments.first[parent]", "begins[parent] + row", PIECES),
    Bug("analysis/answer.py", "float(np.median(frames)) * data.step", "float(np.median(frames))",
        "tests/analysis/test_members.py"),
    Bug("journal/scoreboard.py", "(LOST, FAILED, *", "(LOST, *", "tests/engine/test_exact_starts.py"),
    Bug("data/reweighing.py", "if tried[i] and parent", "if parent", "tests/analysis/test_biased.py"),
    Bug("journal/modes/biases.py", "self.newest if start.share else None", "self.newest", "tests/engine/test_bag.py"),
    Bug("journal/modes/biases.py", "min(controls, self.state.slots - 1)", "controls", "tests/engine/test_pusher.py"),
    Bug("analysis/biased.py", "min(left, entered) <", "max(left, entered) <", "tests/analysis/test_biased.py"),
    Bug("analysis/markov.py", "(self.stationary[0] / self._visits)[self.state]", "self.stationary[0][self.state]",
        "tests/analysis/test_markov.py"),
    Bug("worker/walker.py", "state(walker_name(walker), segment)", "state(walker_name(walker), row)", SEGMENTS),
    Bug("worker/walker.py", '"parent_walker": walker, "parent_row": row', '"parent_walker": row, "parent_row": walker',
        SEGMENTS),
    Bug("worker/walker.py", "name, number, order.seed, group", "name, number, number, group", SEGMENTS),
    Bug("worker/walker.py", "self.space.take_nowait(stop_name(segment), segment) is not None",
        "self.space.take_nowait(stop_name(segment), self.name) is not None", SEGMENTS),
    Bug("worker/walker.py", "time.time() + self._longest_s < self._until", "time.time() < self._until", SEGMENTS),
    Bug("worker/publisher.py", "self._space.ack([held.taken for held in done])", "pass", SEGMENTS),
    Bug("worker/publisher.py", "renewed_at > self._lease_s / 6", "renewed_at > self._lease_s * 6", SEGMENTS),
    Bug("worker/publisher.py", "held.after is not None and held.after <= segments", "held.after is not None", SEGMENTS),
    Bug("worker/publisher.py", "del self._waiting[:count]", "self._waiting.clear()", "tests/worker/test_outbox.py"),
    Bug("worker/training.py", "copy.deepcopy(last)", "last", "tests/worker/test_training.py"),
    Bug("worker/training.py", "array.shape[:1] != (rows,)", "not array.ndim", "tests/worker/test_training.py"),
    Bug("remote/copy.py", "sorted(paths, key=_is_head, reverse=True)", "sorted(paths, key=_is_head)", COPY),
    Bug("remote/copy.py", "size = sum(size for path, size in new.items() if transfer.group_of(path) == group)",
        "size = max((size for path, size in new.items() if transfer.group_of(path) == group), default=0)", COPY),
    Bug("remote/copy.py", "incoming.place(self.path, path).unlink", "(self.path / path).unlink",
        "tests/remote/test_hostile.py"),
    Bug("remote/copy.py", 'data.rfind(b"\\n") + 1', 'data.rfind(b"\\n")', COPY),
    Bug("stages/loading.py", "if missing and weighed:", "if False and weighed:", "tests/stages/test_parameters.py"),
    Bug("steering/decide.py", "and (candidate.exact or not self._misses(*frame))", "", MISSING),
    Bug("journal/scoreboard.py", "counts = ~missing & (", "counts = (", MISSING),
    Bug("journal/scoreboard.py", "waiting &= ~np.isin(last, list(scores.left_out))", "pass",
        "tests/engine/test_exact_starts.py"),
    Bug("worker/training.py", "return whole if missing else score", "return score", "tests/worker/test_training.py"),
    Bug("worker/training.py", "return frames.only(kept) if", "return frames if", "tests/worker/test_training.py"),
    Bug("stages/kinds/label.py", "if not misses(*frame[:2])", "", LABELLER),
    Bug("engine/bag.py", "turn = state.chosen.total() + number - state.next_start", "turn = number",
        "tests/engine/test_bag.py"),
    Bug("journal/records.py", ", *filter(None, [self.condition])", "", "tests/engine/test_bag.py"),
    Bug("stages/kinds/label.py", "next_one - state.known_labels", "next_one", LABELLER),
    Bug("journal/modes/labels.py", "return (*self.before, *train), judge", "return train, judge", LABELLER),
    Bug("worker/known.py", " or group.exists()", "", "tests/worker/test_labelling.py"),
    Bug("data/replay.py", "if record.reason == self._state.mode(Labels).wishes.get(record.frame):", "if False:",
        LABELLER),
    Bug("engine/bag.py", "if steering is not self._steering:", "if False:", "tests/data/test_replay.py"),
    Bug("data/replay.py", 'case records.Tell(verb="set")', 'case records.Tell(verb="none")',
        "tests/data/test_replay.py"),
    Bug("stages/loading.py", "weighs = before is not None and", "weighs = False and",
        "tests/stages/test_parameters.py"),
    Bug("engine/bag.py", "seed=start_seed(self._seed, fresh)", "seed=start_seed(self._seed, number)",
        "tests/engine/test_bag.py"),
    Bug("engine/scorer.py", "board.frames >= self._board.frames", "board.frames > self._board.frames",
        "tests/engine/test_scorer.py"),
    Bug("store/window.py", "(number_of(s.walker) << 40)", "(number_of(s.walker) << 20)", "tests/store/test_frames.py"),
    Bug("apps/gromacs.py", "if last and asked:", "if last and not (folder / 'after.cpt').exists():", GROMACS),
    Bug("apps/gromacs.py", "(each.step - first) % 2**32", "each.step - first", GROMACS),
    Bug("apps/gromacs.py", 're.sub(r"[-_\\s]", "", name).lower()', "name.strip().lower()", GROMACS),
    Bug("apps/gromacs.py", "whole[far] = whole[near] + nearest_image", "whole[far] += nearest_image", GROMACS),
    Bug("apps/trr.py", "end += 2 * width", "end += width", GROMACS),
    Bug("apps/lammps.py", 'if "id" in columns else', "if not columns else", "tests/apps/test_lammps.py"),
    Bug("dashboard/live/watched.py", "            self._current.clear()", "            pass",
        "tests/dashboard/test_following.py"),
    Bug("dashboard/live/gallery.py", "status.st_size, driven(run.directory.path)", "status.st_size, True",
        "tests/dashboard/test_following.py"),
    Bug("journal/state.py", "        if record.again is None:\n            self.chosen",
        "        if True:\n            self.chosen", "tests/data/test_run.py"),
    Bug("engine/driver.py", 'last and last.outcome == "goal"', "False", "tests/engine/test_scorer.py"),
    Bug("analysis/comparison/tuning.py", "if not each.history.state.finished:", "if True:",
        "tests/analysis/test_tuning.py"),
    Bug("data/overview.py", "if end is None or origin or", "if True or", "tests/data/test_run.py"),
    Bug("data/slot_time.py", "waits = len(walker.segments) > 0 and not runs", "waits = False",
        "tests/journal/test_state.py"),
    Bug("data/why.py", " and history.state.walkers[of.walker].segments[of.segment].state", "",
        "tests/data/test_run.py"),
    Bug("dashboard/live/page/map.js", "        !this.source.offline &&\n        this.points?.meta.inside",
        "        this.points?.meta.inside", "tests/dashboard/test_page.py"),
    Bug("dashboard/live/page/charts.js", "map(inOrder)", "map(({ x, y }) => [rising(x), y])",
        "tests/dashboard/test_page.py"),
    Bug("dashboard/live/page/run.js", "corners.at(k - 1)", "corners.at(k)", "tests/dashboard/test_page.py"),
    Bug("dashboard/live/page/segments.js", "this.name(this.parent[i])", "this.name(i)", "tests/dashboard/test_page.py"),
    Bug("dashboard/live/offline.py", '{"missing": told(error)}', "{}", "tests/dashboard/test_report.py"),
    Bug("dashboard/structure.py", "if beyond := int", "if beyond := 0 * int", "tests/dashboard/test_figures.py"),
    Bug("system/reading.py", "file.read(AT_ONCE)", "file.read(most)", "tests/system/test_reading.py"),
    Bug("stages/kinds/train.py", "if scoring and scoring.early:", "if False:", "tests/checks/test_trying.py"),
    Bug("analysis/comparison/statistics.py", "if alike else LEVEL", "if False else LEVEL",
        "tests/analysis/test_statistics.py"),
    Bug("analysis/comparison/verdicts.py", "np.median([np.ptp(values)", "np.max([np.ptp(values)",
        "tests/analysis/test_verdicts.py"),
    Bug("stages/yardstick.py", 'self.take != "distinct" and', "False and", "tests/analysis/test_markov.py"),
    Bug("data/tables.py", 'np.append(history.starts["set"], 0)', 'np.append(0 * history.starts["set"], 0)',
        "tests/data/test_run.py"),
    Bug("engine/trainer.py", ").begin()  # fmt: skip", ")", "tests/engine/test_trainer.py"),
    Bug("dashboard/live/frame.py", "long[-2:] if len(long) > 1 else", "", "tests/dashboard/test_film.py"),
    Bug("steering/rare_events.py", "variances[0] = bernoulli(p) / rounds[0]", "pass", RARE),
    Bug("steering/rare_events.py", "squared = np.where(weights == 1, bernoulli(p), (counted", "squared = ((counted",
        RARE),
    Bug("steering/rare_events.py", "(counted - p) ** 2 + shared * bernoulli(p)", "(counted - p) ** 2", RARE),
    Bug("analysis/comparison/tuning.py", "[search.seed, drawn]", "[search.seed, 0]", "tests/analysis/test_tuning.py"),
    Bug("analysis/comparison/arms.py", "if workflow.after_plan else", "if False else", "tests/analysis/test_arms.py"),
    Bug("analysis/one_system.py", "of.start[of.made]", "of.start", "tests/analysis/test_one_system.py"),
    Bug("analysis/one_system.py", "first == rules(values[0]) and any(", "any(", "tests/analysis/test_one_system.py"),
    Bug("dashboard/live/latent_map.py", "if generation not in (None, cloud.generation):", "if False:",
        "tests/dashboard/test_live.py"),
    Bug("apps/command.py", "if not content.startswith(self._last):", "if False:", "tests/apps/test_command.py"),
    Bug("apps/command.py", "        before()\n", "        pass\n", "tests/apps/test_command.py"),
    Bug("cli/assistant.py", 'if run not in ([*names, ""] if self._alone else names):', "if False:", ASSISTANT),
    Bug("cli/assistant.py", "[desk.tell] if tell else []", "[desk.tell]", ASSISTANT),
    Bug("cli/assistant.py", "ascending=not lowest", "ascending=lowest", ASSISTANT),
    Bug("models/portable.py", "if not apart <= agrees * largest:", "if False:", "tests/models/test_portable.py"),
    Bug("models/portable.py", "module.double() if double else module", "module", "tests/models/test_portable.py"),
    Bug("models/networks/perceptron.py", '(*each, "Tanh") for', '(*each, "ReLU") for', "tests/models/test_portable.py"),
    Bug("apps/molecular_dynamics/plumed.py", "nbins_{name} {len(axis)}", "nbins_{name} {len(axis) - 1}", PLUMED),
    Bug("apps/molecular_dynamics/plumed.py", "finer = max(1,", "finer = min(1,", PLUMED),
    Bug("apps/molecular_dynamics/plumed.py", "SHIFT = 1e4", "SHIFT = 0.0", PLUMED),
    Bug("apps/line.py", "not hmac.compare_digest(first.name.encode(), self._token.encode())", "False", PROGRAM),
    Bug("apps/line.py", "if int(first.a) != MAJOR:", "if first.a < MAJOR:", PROGRAM),
    Bug("apps/line.py", "flat.reshape(self.shape, order=self.order)", "flat.reshape(self.shape)", PROGRAM),
    Bug("apps/line.py", "if not (kept and (array", "if not ((array", PROGRAM),
    Bug("apps/line.py", 'else np.array(view, order="C")', "else view", PROGRAM),
    Bug("apps/line.py", "return bool(held) and", "return False and", PROGRAM),
    Bug("apps/line.py", "[self._memory, self._alive]", "[self._memory, self._memory]", PROGRAM),
    Bug("apps/line.py", "magic == MAGIC and not length", "magic == MAGIC", PROGRAM),
    Bug("apps/line.py", "(node.address_towards(self._host), 0)", '("", 0)', PROGRAM),
    Bug("client/steersman.c", "return shared >= 0 && bytes > LARGE;", "return bytes > LARGE;", PROGRAM),
    Bug("client/steersman.c", "head.call = WATCH, files[1] = far(where);", "files[1] = dup(wire);", PROGRAM),
    Bug("stages/shared.py", "id(given[wire][0]), *(", "0, *(", SHARED),
    Bug("stages/shared.py", "each.dtype.str, each.shape", "each.dtype.str", SHARED),
    Bug("stages/shared.py", "self._wire, self._sent = None, b\"\"", "self._wire = None", SHARED),
    Bug("stages/kinds/answer.py", "if start.model is None and start.learns:", "if start.model is None:", PROGRAM),
    Bug("stages/kinds/answer.py", "out.repeats &= not isinstance(self.functions[name], Shared)", "pass", PROGRAM),
    Bug("journal/missing.py", "repeats=row[\"repeats\"] != 0", "repeats=True", "tests/engine/test_reconcile.py"),
    Bug("stages/shared.py", "        except UnknownInput as error:\n            replies = [(False, error)] * n\n", "",
        SHARED),
    Bug("journal/segments.py", "segment.how), *flags\n", "segment.how), *(True,) * 3\n",
        "tests/journal/test_segments.py"),
    Bug("apps/program.py", '                self._space.release(tuple_, "")', "                pass", PROGRAM),
    Bug("apps/program.py", "if self._next:\n            raise BadInput", "if None:\n            raise BadInput",
        PROGRAM),
    Bug("apps/program.py", "if not calls.closed:", "if False:", PROGRAM),
    Bug("journal/state.py", "            start.given_up = True", "            self.starts.pop(record.start)",
        "tests/journal/test_state.py"),
    Bug("journal/state.py", "                if not start.given_up:\n", "                if True:\n",
        "tests/journal/test_state.py"),
    Bug("journal/run_directory.py", "if not os.access(each, wanted) and", "if False and",
        "tests/journal/test_manifest.py"),
    Bug("store/group.py", "if size != known:", "if False:", "tests/store/test_frames.py"),
    Bug("data/yardsticks.py", "steps[-1][begins] = time[begins]", "pass", "tests/data/test_yardsticks.py"),
    Bug("data/yardsticks.py", "np.arange(1, len(moments) + 1), side", "np.arange(len(moments)), side",
        "tests/data/test_yardsticks.py"),
    Bug("data/clock.py", "np.concatenate([[0.0], faster, -faster])", "np.concatenate([[0.0], faster, 0 * faster])",
        "tests/data/test_clock.py"),
    Bug("models/model.py", "own.clone() if place in places else own", "own", "tests/models/test_model.py"),
    Bug("steering/audits.py", "(each != each[first][where]).any()", "False", "tests/steering/test_audits.py"),
    Bug("data/repair.py", "if before <= known and not isinstance(record, Left):", "if True:",
        "tests/data/test_verify.py"),
    Bug("data/repair.py", 'each.what in ("prepared", "frames",', 'each.what in ("frames",',
        "tests/engine/test_prepared.py"),
    Bug("models/networks/scale.py", "high.astype(np.float64) - low > ROUNDING *", "high.astype(np.float64) - low > 0 *",
        UNITS),
    Bug("models/networks/outcomes.py", "_solved(square - own_square, product - own_product)",
        "_solved(square, product)", OUTLOOK),
    Bug("models/networks/outcomes.py", "size[0] += 0.5 * math.log(", "size[0] += 1.5 * math.log(",
        OUTLOOK),
    Bug("models/networks/outcomes.py", "np.bincount(number, self.weights[self.weights > 0])", "np.bincount(number)",
        OUTLOOK),
    Bug("models/networks/outlook.py", "said * (hats @ calibration)[:, 1]", "said",
        OUTLOOK),
    Bug("models/networks/outlook.py", "* (1 + gain) + shift", "", OUTLOOK),
    Bug("models/networks/outcomes.py", "    return np.asarray(part[groups])",
        "    return np.arange(len(groups)) % FOLDS",
        OUTLOOK),
    Bug("models/networks/scale.py", "if init is None or not model.fits(init):", "if True:",
        "tests/models/networks/test_tica.py"),
    Bug("worker/torch_defaults.py", 'device if device and device.type != "cpu" else None', "device",
        "tests/worker/test_tasks.py"),
    Bug("checks/trying.py", "random_numbers.states() != random", "False", "tests/checks/test_trying.py"),
    Bug("analysis/markov.py", "return early, late", "pass", "tests/analysis/test_markov.py"),
    Bug("analysis/markov.py", "longest, over = longest // 2, True", "break", "tests/analysis/test_markov.py"),
    Bug("analysis/comparison/verdicts.py", "len(set(each)) for each", "1 for each", VERDICTS),
    Bug("analysis/comparison/tables.py", "own = runs.own[i] / max(runs.starts[i], 1)", "own = row.share", VERDICTS),
    Bug("analysis/comparison/files.py", 'if row["arm"] not in arms', "if False", "tests/analysis/test_arms.py"),
    Bug("stages/segment.py", "self.restart = {}  # of", "pass  # of", SEGMENTS),
    Bug("models/networks/autoencoder.py", "x = relative(model.mean, model.scale, x)",
        "x = ((x.astype(np.float32) - model.mean.numpy()) / model.scale.numpy()).astype(np.float32)", UNITS),
    Bug("models/networks/forecaster.py", "* self.spread * (self.increment > 0)", "* self.spread",
        "tests/models/networks/test_forecasters.py"),
    Bug("journal/state.py", 'run_ends = record.how == "stopped" and', "run_ends = False and",
        "tests/engine/test_exact_starts.py"),
    Bug("data/reweighing.py", " & (segments.end > segments.first)", "", "tests/analysis/test_biased.py"),
    Bug("steering/opes.py", "if len(some) and np.array_equal(some, others):", "if False:",
        "tests/steering/test_bias.py"),
    Bug("steering/bias.py", "slope = (1 - z**2)[:, None] * slope", "pass", "tests/models/networks/test_tica.py"),
    Bug("steering/importance.py", "Estimate(math.nan, math.nan, 0, 0)", "Estimate(0.0, 0.0, 0, 0)", RARE),
    Bug("steering/importance.py", "if self.whole not in scores.values or self._known(scores) or",
        "if True or self._known(scores) or", RARE),
    Bug("calls/driver.py", "if run_dir and not wait and driven(run_dir):", "if False:", "tests/calls/test_run.py"),
    Bug("steering/importance.py", "return (self.quantity, self.whole, POINT, WEIGHT, TRUST)", "return ()",
        "tests/steering/test_policies.py"),
    Bug("steering/policies.py", "points = points / np.ptp(points, axis=0).max()", "pass",
        "tests/steering/test_policies.py"),
    Bug("system/random_numbers.py", "np.random.seed(seed % 2**32)", "pass", "tests/steering/test_ask.py"),
    Bug("analysis/markov.py", "np.where(times[:, :1] > self.lag.frames, times, np.nan)", "times",
        "tests/analysis/test_markov.py"),
    Bug("stages/content.py", "if type(each) is np.ndarray and not", "if not", "tests/engine/test_planner.py"),
    Bug("stages/task.py", "if said := code(each):", "if said := b'':", "tests/engine/test_planner.py"),
    Bug("engine/ending.py", "if state.models.newest or not (segments and progress.frames):",
        "if state.models.newest or not progress.frames:", "tests/engine/test_ending.py"),
    Bug("engine/ending.py", "each.alive and each.running and each.since < state.failing_since for", "False for",
        "tests/engine/test_ending.py"),
    Bug("journal/file.py", "return self._clock() + self.behind_s", "return self._clock()",
        "tests/journal/test_file.py"),
    Bug("worker/walker.py", "out.first_row + out.frames <= word[2]", "True", SEGMENTS),
    Bug("data/history.py", "(at the beginning {began.get(name)})", "(at the beginning {value})",
        "tests/dashboard/test_report.py"),
    Bug("system/numbers.py", "strict=True, ", "", "tests/system/test_numbers.py"),
    Bug("system/numbers.py", "        own(self)\n", "", "tests/steering/test_weighted_ensemble.py"),
    Bug("system/errors.py", "text.format_map(values) if values else text", "text.format_map(values)",
        "tests/test_errors.py"),
    Bug("steering/opes.py", "    exploring: bool = False", "    exploring: Any = False",
        "tests/system/test_numbers.py"),
    Bug("system/registry.py", "entry.name in self._taken or entry.name in entries", "entry.name in entries", OUTSIDE),
    Bug("system/registry.py", "except (Exception, SystemExit) as error", "except Exception as error", OUTSIDE),
    Bug("system/lazy.py", 'and find_spec(f"{package}.{name}") is None', "", OUTSIDE),
    Bug("cli/verbs.py", "if words[0] not in VERBS:", "if True:", OUTSIDE),
    Bug("models/model.py", 'if not known and described["class"] not in', "if not known and None in", OUTSIDE),
    Bug("steering/protocols.py", "if kind is ScoreName or", "if False and", "tests/steering/test_policies.py"),
]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--room", default="", help="those of one room")
    parser.add_argument("--only", type=int, default=0, metavar="N", help="the N-th of the list")
    asked = parser.parse_args()
    chosen = {
        n: bug for n, bug in enumerate(BUGS, 1)
        if asked.only in (0, n) and (not asked.room or bug.file.startswith(f"{asked.room}/"))
    }  # fmt: skip
    if not chosen:
        parser.error("there is no such bug")
    counts = {"found": 0, "LIVES": 0, "stale": 0}
    with TemporaryDirectory(prefix="planted-") as folder:
        copy = Path(folder).resolve()
        copy_to(copy)
        began = time.monotonic()
        if broken := failure(copy, sorted({each for bug in chosen.values() for each in bug.tests.split()})):
            sys.exit(f"{broken} fails without a bug")
        took = {"tests_s": round(time.monotonic() - began, 1), "tests_cpu_s": round(used_s(), 1)}
        print(f"all tests named here, without a bug: {took}", flush=True)
        for n, bug in chosen.items():
            outcome, words = of(copy, bug)
            counts[outcome] += 1
            print(f"{n:2}  {bug.file:30}  {outcome:5}  {words}", flush=True)
    print(json.dumps({"bugs": len(chosen), **counts, **took}))
    return int(counts["stale"] > 0)


def copy_to(folder: Path) -> None:
    """Copy the checkout as it lies here, without what git ignores, and see that Python imports the copy."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.check_output(command, cwd=ROOT, text=True).split("\0"):
        if name and os.path.lexists(ROOT / name):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    libraries = Path("src/steersman/dashboard/live/libraries")  # of the page, which git ignores
    shutil.copytree(ROOT / libraries, folder / libraries)
    code = "import tests, steersman.steering as s; print(tests.__file__, s.__file__, sep='\\n')"
    for path in subprocess.check_output([sys.executable, "-c", code], cwd="/", env=env(folder), text=True).splitlines():
        if not Path(path).resolve().is_relative_to(folder):
            sys.exit(f"{path} is imported, and not the copy in {folder}")


def env(copy: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": f"{copy / 'src'}{os.pathsep}{copy}"}


def of(copy: Path, bug: Bug) -> tuple[str, str]:
    """Plant a bug, run its tests, take it away. Returns: what came of it, and the test or the texts."""
    file = copy / "src" / "steersman" / bug.file
    text = file.read_text(encoding="utf-8")
    if text.count(bug.old) != 1:
        return "stale", f"{bug.old!r} is there {text.count(bug.old)} times"
    write(file, text.replace(bug.old, bug.new))
    try:
        found = failure(copy, bug.tests.split())
    finally:
        write(file, text)
    return ("found", found) if found else ("LIVES", f"{bug.new!r} in place of {bug.old!r}")


def write(file: Path, text: str) -> None:
    """Change a module, and forget how it was compiled: a change of the same size in the same second is not seen."""
    file.write_text(text, encoding="utf-8")
    for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
        compiled.unlink()


def failure(copy: Path, tests: list[str]) -> str:
    """The first test that fails, or ""; slow ones are tried last."""
    for kind in ("not slow", "slow"):
        options = ["-m", kind, "-x", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--timeout", str(HANGS_S)]
        command = [sys.executable, "-m", "pytest", *options, *tests]
        done = subprocess.run(command, cwd=copy, env=env(copy), capture_output=True, text=True)
        if done.returncode == 1:
            named = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
            return named[1] if named else "a test that hangs"
        if done.returncode < 0:
            return "a test that ends its process"
        if done.returncode not in (0, NO_TEST):
            sys.exit(f"pytest ended with {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return ""


def used_s() -> float:
    """Processor time of the processes that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
