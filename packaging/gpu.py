"""What `make gpu` needs where there is a GPU: `python packaging/gpu.py install WHEELS FOLDER` makes an environment.

From the network by uv; or, where the folder WHEELS exists, from its wheels alone, beside the torch of this Python: for
a machine without a network. `python packaging/gpu.py wheels WHEELS` fills it: for Python 3.12, without torch and what
comes with it, at most 60 MB.
"""

import subprocess
import sys
import sysconfig
from pathlib import Path

EXTRAS = "md,potentials"
MOST_BYTES = 60_000_000
TORCH = "torch==2.13.0"
# Of torch, and what an environment with torch has; and what no part of lab/gpu.py imports.
THERE = {
    "torch", "triton", "numpy", "pandas", "scipy", "scikit-learn", "matplotlib", "pillow", "fonttools", "contourpy",
    "kiwisolver", "networkx", "sympy", "mpmath", "requests", "urllib3", "certifi", "charset-normalizer", "idna",
    "psutil", "safetensors", "threadpoolctl", "rich", "typer", "click", "pygments", "jinja2", "markupsafe", "filelock",
    "fsspec", "tqdm", "pytorch-lightning", "lightning-utilities", "torchmetrics", "e3nn", "opt-einsum", "opt-einsum-fx",
    "sentry-sdk", "protobuf", "setuptools", "pyyaml", "msgpack", "joblib", "anyio", "h11", "xarray", "scikit-image",
    "aiohttp", "yarl", "multidict", "frozenlist", "propcache", "aiosignal", "aiohappyeyeballs", "attrs", "packaging",
    "h5py",
}  # fmt: skip
NEVER = {"mdanalysis", "griddataformats", "wandb", "ipython", "ipywidgets", "jedi", "jupyterlab-widgets",
         "widgetsnbextension"}  # fmt: skip
TAGS = ["manylinux2014_x86_64", "manylinux1_x86_64", *(f"manylinux_2_{minor}_x86_64" for minor in range(39, 4, -1))]


def run(*command: str) -> None:
    subprocess.run(command, check=True)


def wheels(folder: Path) -> None:
    """Raises: SystemExit: they are too large to travel."""
    folder.mkdir(parents=True, exist_ok=True)
    extras = [word for extra in EXTRAS.split(",") for word in ("--extra", extra)]
    compiled = subprocess.run(
        ["uv", "pip", "compile", "--quiet", "pyproject.toml", *extras, "-c", "constraints.txt", "--no-annotate",
         "--no-header", "--python-version", "3.12", "--python-platform", "x86_64-manylinux_2_34"],
        check=True, stdout=subprocess.PIPE, text=True,
    ).stdout.split()  # fmt: skip
    openmm = next(pin for pin in compiled if pin.startswith("openmm=="))
    pins = [
        pin
        for pin in compiled
        if pin.partition("==")[0] not in THERE | NEVER and not pin.startswith(("nvidia-", "cuda-"))
    ]
    pins += [openmm.replace("openmm", f"openmm-cuda-{version}") for version in (12, 13)]
    platforms = [word for tag in TAGS for word in ("--platform", tag)]
    run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
        "--python-version", "3.12", "--implementation", "cp", *platforms, "-d", str(folder), *pins)  # fmt: skip
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder), ".")
    sizes = {path.name: path.stat().st_size for path in folder.glob("*.whl")}
    print(f"{len(sizes)} wheels of {sum(sizes.values()) / 1e6:.1f} MB are in {folder}.")
    if sum(sizes.values()) > MOST_BYTES:
        sys.exit(f"That is more than {MOST_BYTES / 1e6:.0f} MB. The largest: {sorted(sizes, key=sizes.get)[-5:]}")


def install(folder: Path, environment: Path) -> None:
    python = str(environment / "bin" / "python")
    if not folder.exists():
        run(sys.executable, "-m", "venv", str(environment))
        run(python, "packaging/install.py", "-c", "constraints.txt", TORCH, "-e", f".[{EXTRAS}]", "openmm[cuda13]")
        return
    run(sys.executable, "-m", "venv", "--without-pip", str(environment))
    paths = dict.fromkeys(sysconfig.get_paths()[kind] for kind in ("purelib", "platlib"))
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = environment / "lib" / version / "site-packages"
    (site / "there.pth").write_text("\n".join(paths) + "\n")
    libraries = Path(sysconfig.get_paths()["purelib"]) / "nvidia"
    if libraries.exists():  # of CUDA, which OpenMM's plugin looks for beside itself
        (site / "nvidia").symlink_to(libraries)
    cuda = subprocess.run([sys.executable, "-c", "import torch; print(torch.version.cuda or '')"],
                          check=True, stdout=subprocess.PIPE, text=True).stdout.partition(".")[0]  # fmt: skip
    other = f"openmm_cuda_{25 - int(cuda or 13)}-"  # there are two, for CUDA 12 and 13
    found = [str(path) for path in folder.glob("*.whl") if not path.name.startswith(other)]
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps", *found)


if __name__ == "__main__":
    {"wheels": wheels, "install": install}[sys.argv[1]](*map(Path, sys.argv[2:]))
