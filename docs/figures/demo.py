"""What the frames of a demo run hold, for the pages.

python docs/figures/demo.py runs/fold-0001
"""

from __future__ import annotations

import sys
from pathlib import Path

from steersman.calls.opened import open_run


def main() -> None:
    figure = open_run(Path(sys.argv[1])).plot.quantities()
    figure.savefig(Path(__file__).with_stem("demo_quantities").with_suffix(".png"), dpi=170)


if __name__ == "__main__":
    main()
