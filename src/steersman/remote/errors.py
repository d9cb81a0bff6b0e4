"""What can go wrong between here and a run at another machine.

EngineError
├── EndpointOffline       the endpoint is not connected to the service
├── NoAnswer              the endpoint is online and has not answered in time
├── NotPermitted          the service or the endpoint's policy says no
├── AnswerLost            the answer was too large, or was fetched too late
├── TaskFailed            the endpoint could not run our function
├── NoSteersman           there is no Steersman with that Python there
├── OtherVersion          there is one that speaks otherwise
├── StillRunning          a driver that is to end has not ended yet
├── FailedThere           something could not be done at the site, in the words of the site
├── BadAnswer             what came is not what a site of ours answers
└── Damaged               what came is not what was sent
BadInput
├── UnknownEndpoint       no endpoint has this UUID
├── TooLarge              more than the service carries
└── RefusedThere          what was asked for is wrong, in the words of the site
"""

from __future__ import annotations

from steersman.system.errors import BadInput, EngineError


class EndpointOffline(EngineError):
    at: str

    def __str__(self) -> str:
        return f"endpoint {self.at} is offline; start it on its machine: globus-compute-endpoint start NAME"


class NoAnswer(EngineError):
    at: str
    within_s: float
    status: str

    def __str__(self) -> str:
        return (
            f"endpoint {self.at} is {self.status} and has not answered within {self.within_s:g} s; the request is not "
            "carried out late: try again, or look at endpoint.log on its machine"
        )


class NotPermitted(EngineError):
    at: str
    problem: str

    def __str__(self) -> str:
        return f"endpoint {self.at} may not be used: {self.problem}; log in with the identity that its owner allows"


class AnswerLost(EngineError):
    at: str
    problem: str

    def __str__(self) -> str:
        return f"the answer of endpoint {self.at} is lost: {self.problem}; try again"


class TaskFailed(EngineError):
    at: str
    problem: str

    def __str__(self) -> str:
        return f"endpoint {self.at} cannot run a function: {self.problem}; see `steersman remote check`"


class NoSteersman(EngineError):
    at: str
    python: str
    problem: str

    def __str__(self) -> str:
        return (
            f"there is no Steersman for {self.python} at {self.at}: {self.problem}; `steersman remote install --at "
            f"{self.at}`, or name its Python: steersman endpoints add {self.at} --python PATH"
        )


class OtherVersion(EngineError):
    at: str
    there: str
    here: str

    def __str__(self) -> str:
        return (
            f"Steersman {self.there} at {self.at} does not understand Steersman {self.here}; "
            f"`steersman remote install --at {self.at}` puts the same version there"
        )


class StillRunning(EngineError):
    run: str
    driver: str

    def __str__(self) -> str:
        return f"run {self.run} has not ended yet: {self.driver}; look again, or end that process on its machine"


class FailedThere(EngineError):
    at: str
    text: str

    def __str__(self) -> str:
        return f"at {self.at}: {self.text}"


class Damaged(EngineError):
    path: str

    def __str__(self) -> str:
        return f"{self.path} did not arrive as it was sent; fetch again, which continues where it stopped"


class BadAnswer(EngineError):
    problem: str

    def __str__(self) -> str:
        return (
            f"the site answers what Steersman there would not: {self.problem}; nothing of it was taken: look who has "
            "access to your account there, and whether both sides have the same version"
        )


class UnknownEndpoint(BadInput):
    uuid: str

    def __str__(self) -> str:
        return f"no endpoint has the UUID {self.uuid}; `globus-compute-endpoint list` on its machine shows it"


class TooLarge(BadInput):
    what: str
    size: int
    most: int

    def __str__(self) -> str:
        return (
            f"{self.what} has {self.size / 2**20:.1f} MiB, and {self.most / 2**20:.0f} MiB can be sent: put large "
            "inputs at the site (with Globus Transfer, say) and give their path there as a parameter"
        )


class RefusedThere(BadInput):
    at: str
    text: str

    def __str__(self) -> str:
        return f"at {self.at}: {self.text}"
