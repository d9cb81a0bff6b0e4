"""Configurations of Globus Compute endpoints, with the schema of what a submission may ask for; see docs/remote.md."""

from pathlib import Path

FOLDER = Path(__file__).parent
SCHEMA = FOLDER / "schema.json"


def names() -> list[str]:
    return sorted(path.name.removesuffix(".yaml.j2") for path in FOLDER.glob("*.yaml.j2"))


def template(name: str) -> Path:
    return FOLDER / f"{name}.yaml.j2"
