"""Each configuration of an endpoint that comes with Steersman, rendered and built by the real endpoint package."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import Any

import pytest
from globus_compute_endpoint.endpoint.config import CoreEndpointConfig
from globus_compute_endpoint.endpoint.config.utils import (
    load_config_yaml,
    load_user_config_schema,
    render_config_user_template,
)
from globus_compute_endpoint.endpoint.identity_mapper import MappedPosixIdentity
from jsonschema import ValidationError

from steersman.remote.check import template
from steersman.site_configs import endpoints

FOLDER = Path(endpoints.__file__).parent
JOB = {"where": "allocation", "nodes": 4, "walltime": "02:30:00", "account": "science", "queue": "regular"}


def rendered(name: str, options: dict[str, Any]) -> str:
    """What the endpoint makes of a template with what a submission gives it."""
    file = FOLDER / f"{name}.yaml.j2"
    identity = MappedPosixIdentity(pwd.getpwuid(os.getuid()), None, [])
    schema = load_user_config_schema(FOLDER / "schema.json")
    return str(render_config_user_template(CoreEndpointConfig(), file.read_text(), file, identity, schema, options, {}))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Parsl leaves sockets open
@pytest.mark.parametrize("name", endpoints.names())
def test_a_driver_in_a_job_gets_the_nodes_that_were_asked_for(name: str) -> None:
    text = rendered(name, JOB).replace("{type: address_by_interface, ifname: bond0}", "127.0.0.1")
    text = text.replace("{type: address_by_interface, ifname: hsn0}", "127.0.0.1")  # networks that there are not here
    engine = load_config_yaml(text).engine
    try:
        provider = engine.executor.provider
        assert (provider.nodes_per_block, provider.walltime, provider.max_blocks) == (4, "02:30:00", 1)
        asked = {getattr(provider, key, None) for key in ("account", "queue", "partition", "qos")}
        assert {"science", "regular"} <= asked
        assert engine.executor.max_workers_per_node == 1
        assert os.environ["PATH"] in provider.worker_init
    finally:
        engine.shutdown()


@pytest.mark.parametrize("name", endpoints.names())
def test_all_else_runs_where_the_endpoint_runs(name: str) -> None:
    engine = load_config_yaml(rendered(name, {})).engine
    assert type(engine).__name__ == "ThreadPoolEngine"
    engine.shutdown()


@pytest.mark.parametrize("wrong", [{"account": "x\nworker_init: rm"}, {"walltime": "1h"}, {"nodes": 0}, {"other": 1}])
def test_what_a_template_does_not_know_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        rendered("slurm", {**JOB, **wrong})


def test_check_knows_which_templates_give_nodes() -> None:
    schema = load_user_config_schema(FOLDER / "schema.json")
    ours = {"user_config_template": (FOLDER / "polaris.yaml.j2").read_text(), "user_config_schema": schema}
    assert "--where allocation" in template(ours).found
    assert "--where login only" in template({"user_config_template": "engine: {type: ThreadPoolEngine}"}).found
