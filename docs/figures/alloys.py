"""docs/figures/alloys.png: the answer of a run of `order`, beside exact values.

python docs/figures/alloys.py RUN
"""

import sys
from pathlib import Path

from steersman import open_run
from steersman.apps import alloys

drawn = alloys.curves(open_run(sys.argv[1]).scores.to_dict("series"), exact=True)
if drawn is None:
    sys.exit("this run has no audits yet")
figure, caption = drawn
print(caption)
figure.savefig(Path(__file__).with_name("alloys.png"), dpi=110)
