"""The table of networks: operations are torch's, shares are shares, and a network that is not there is refused."""

import json

import pytest

from steersman.benchmarks import network_table
from steersman.system.errors import UnknownName


@pytest.mark.slow
def test_every_network_is_counted_at_full_size_as_torch_counts(capsys: pytest.CaptureFixture[str]) -> None:
    network_table.main(["--json", "--count"])
    told = json.loads(capsys.readouterr().out)
    assert set(told["networks"]) == set(network_table.ROWS)
    assert all(found["flops_over_torch_s_count"] == 1 for found in told["networks"].values())
    assert told["networks"]["cosmoflow"]["parameters"] == 8_907_556
    assert {row["network"] for row in told["published"]} <= set(network_table.ROWS)


@pytest.mark.slow
def test_a_network_is_measured_in_both_precisions(capsys: pytest.CaptureFixture[str]) -> None:
    """What computing alone takes is no longer than what the epoch takes, and a share is of a peak."""
    network_table.main(["--only", "resnet50_atomai"])
    found = json.loads(capsys.readouterr().out)["networks"]["resnet50_atomai"]
    for precision in ("fp32", "bf16"):
        speeds = found[precision]
        assert speeds["samples_per_s_peak"] >= speeds["samples_per_s_sustained"] > 0
        assert 0 < speeds["share_of_peak"] < 2  # above 1 where a convolution takes fewer operations than are counted
    assert found["size_over_full"] == 1


def test_a_network_that_is_not_there_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="deeplab"):
        network_table.main(["--only", "deeplabs"])
