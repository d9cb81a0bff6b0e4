"""Fold chignolin (CLN025) from the extended chain: the shipped `fold`, with further yardsticks.

    steersman compare chignolin --set sequence=YYDPETGTWY --set contact_nm=1 --set train_every=800 --budget sim_ns=0.6
"""
import functools

import numpy as np

from steersman.apps import molecular_dynamics as md
from steersman.workflows.fold import wf


@functools.cache
def alpha_of(sequence): return md.build_peptide(sequence).alpha

@wf.yardstick("mean", less=True)
def radius_of_gyration_nm(p, frames):
    alpha = frames["positions"][:, alpha_of(p.sequence)]
    return np.sqrt(((alpha - alpha.mean(axis=1, keepdims=True)) ** 2).sum(-1).mean(-1))

@wf.yardstick("highest", levels=(0.5, 0.8))
def hairpin_contacts(p, frames): return md.native_fraction(frames["contacts"], md.hairpin(len(p.sequence)))
