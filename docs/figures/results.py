"""Comparisons -> the tables and figures of docs/results.md, between its marks; `make compare` does it all.

python docs/figures/results.py runs/compare-wells runs/compare-chignolin
"""

import json
import re
import shutil
import sys
from pathlib import Path

DOCS = Path(__file__).parents[1]


def measured(folder: Path, name: str) -> str:
    """What stands between the marks of a comparison; its figure is copied."""
    seeds = len(json.loads((folder / "comparison.json").read_text())["rows"][0]["seeds"])
    shutil.copy(folder / "figure.png", DOCS / "figures" / f"results_{name}.png")
    curves = f"![Medians and their 95 % bands](figures/results_{name}.png)"
    return f"{curves}\n\n{seeds} seeds each.\n\n{(folder / 'table.md').read_text().strip()}\n"


def main(folders: list[str]) -> None:
    page = (DOCS / "results.md").read_text()
    for folder in map(Path, folders):
        name = folder.name.split("-")[-1]
        mark = re.compile(f"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        new = measured(folder, name)
        page = mark.sub(lambda found, new=new: found[1] + new + found[2], page)
    (DOCS / "results.md").write_text(page)


if __name__ == "__main__":
    main(sys.argv[1:])
