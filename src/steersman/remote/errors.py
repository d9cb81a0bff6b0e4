"""What can go wrong between here and a run at another machine. What may be well again later is `ServiceSilent`."""

from __future__ import annotations

from steersman.executors.errors import ServiceSilent
from steersman.system.errors import BadInput, EngineError


class AnswerLost(EngineError):
    """The answer was too large, or was fetched too late."""

    at: str
    problem: str

    def __str__(self) -> str:
        return f"the answer of endpoint {self.at} is lost: {self.problem}; try again"


class EndpointFailed(EngineError):
    """The endpoint could not run our function."""

    at: str
    problem: str

    def __str__(self) -> str:
        return f"endpoint {self.at} cannot run a function: {self.problem}; see `steersman remote check`"


def offline(at: str) -> ServiceSilent:
    return ServiceSilent(f"endpoint {at} is offline; start it on its machine: globus-compute-endpoint start NAME")


def too_large(what: str, size: int, most: int) -> BadInput:
    return BadInput(
        f"{what} has {size / 2**20:.1f} MiB, and {most / 2**20:.0f} MiB can be sent: put large inputs at the site "
        "(with Globus Transfer, say) and give their path there as a parameter"
    )


def bad_answer(problem: str) -> EngineError:
    """What came is not what a site of ours answers."""
    return EngineError(
        f"the site answers what Steersman there would not: {problem}; nothing of it was taken: look who has access to "
        "your account there, and whether both sides have the same version"
    )
