"""Kernels of the networks: which they are, and that all of them are measured."""

import json

import pytest

from steersman.benchmarks import kernels
from steersman.benchmarks.network_table import ROWS
from steersman.system.errors import UnknownName


def test_each_network_has_its_kernels() -> None:
    """CosmoFlow's has 2 operations for each of 64 x 32 x 27 weights, at each of 2 x 32^3 places."""
    found = {name: kernels.largest(row) for name, row in ROWS.items()}
    dense = {"conv2d", "matmul"}
    assert {name: set(each) for name, each in found.items()} == {
        "cvae_deepex": dense, "resnet50_atomai": dense, "resnet50_imagenet": dense, "deeplab": {"conv2d"},
        "tiramisu": {"conv2d"}, "cosmoflow": {"conv3d", "matmul"},
    }  # fmt: skip
    assert found["cosmoflow"]["conv3d"].flops == 2 * (64 * 32 * 27) * (2 * 32**3)


@pytest.mark.slow
def test_a_kernel_is_measured_in_both_passes_and_precisions(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "ENOUGH_S", 0.0)
    kernels.main(["--only", "resnet50_atomai"])
    found = json.loads(capsys.readouterr().out)
    assert set(found["kernels"]) == {"conv2d_resnet50_atomai", "matmul_resnet50_atomai"}
    for kernel in found["kernels"].values():
        for precision, most in found["peak_flops_per_s"].items():
            for name in ("forward", "backward"):
                speed = kernel[precision][f"{name}_flops_per_s"]
                assert kernel[precision][f"{name}_share_of_peak"] == pytest.approx(speed / most, rel=0.01)


def test_a_network_that_is_not_there_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="cosmoflow"):
        kernels.main(["--only", "cosmoflows"])
