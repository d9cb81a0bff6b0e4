"""A run at another machine -> a run directory here: what is looked at, and what is fetched.

Read in the order journal, decisions, metadata, data, and put in place the other way round: so whoever reads the copy,
at any moment, finds every decision, frame and model that its journal speaks of.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from steersman.journal import copies
from steersman.remote import incoming, transfer
from steersman.remote.errors import bad_answer
from steersman.remote.known import Sent, seen
from steersman.remote.site import WITHIN_S, RemoteSite
from steersman.system.errors import BadInput, EngineError, UnknownName
from steersman.system.files import locked, replace_file

HEADS = ("zarr.json", "card.json")  # they say what there is; written after it, so read before and put in place behind
JOURNALS = (*transfer.GROWING, "run.yaml", "workflow.py")  # in the order they are read; those later were written before
SEAL = "manifest.sha256"
TRIES = 5  # of a file that is another one each time
MOST_JOURNAL = 2**32
GROWS = 2**26  # bytes that a file may grow by between the listing and its last piece
LISTINGS = 100  # in one fetch: a run that goes on has new files in some
MISSES = 100  # answers of a fetch that bring little and end no file: each file may be another one a few times
FETCH_S, DRAW_S = 120.0, 300.0
Question = tuple[str, dict[str, Any]]  # see `Site.ask`


class View:
    """The journal of a run as far as it was read; enough for status, watch, why and journal."""

    def __init__(self, site: RemoteSite, sent: Sent) -> None:
        self.path = seen(sent.name)
        self.site, self.sent = site, sent
        self._of = _Identities(self.path / copies.FOLDER / "identities.json")

    def catch_up(self) -> dict[str, Any]:
        """Read what is new, all of it. Returns: see `there.look`."""
        look: dict[str, Any] = self.read()[0]
        return look

    def read(self, *then: Question) -> list[Any]:
        """Read what is new, all of it. Returns: see `there.look`, and the answers to what is asked behind it.

        Raises: EngineError: of the site, see incoming.py.
        """
        progress = _Progress()
        while True:
            pieces = [self._next(name) for name in JOURNALS]
            asked: list[Question] = [("look", {"log": None}), ("read", {"pieces": pieces}), *then]
            look, answers, *others = self.site.ask(self.sent.name, *asked, within_s=FETCH_S if then else WITHIN_S)
            self.path.mkdir(parents=True, exist_ok=True)
            anew = [self._take(answer) for answer in reversed(answers)]
            self._of.keep()
            if len(answers) == len(pieces) and all(_complete(each) for each in answers) and not any(anew):
                copies.mark(self.path, _origin(self.sent, look))
                return [look, *others]
            progress.expect(sum(len(each.get("data", b"")) for each in answers), ended=0)

    @property
    def begun(self) -> bool:
        """Whether the run has written a journal."""
        return (self.path / "journal.jsonl").exists()

    def _next(self, name: str) -> transfer.Piece:
        known = name in self._of and (self.path / name).exists()
        return (name, (self.path / name).stat().st_size, self._of[name]) if known else (name, 0, "")

    def _take(self, answer: Mapping[str, Any]) -> bool:
        """Write what came. Returns: whether it has to be read anew, since it is another file by now."""
        name, path = answer["path"], incoming.place(self.path, answer["path"])
        _expect_at_most(answer, MOST_JOURNAL)
        if answer.get("gone"):
            return self._of.pop(name, None) is not None
        data = _checked(answer)
        if name in transfer.GROWING:
            data = data[: data.rfind(b"\n") + 1]  # a line that is being written comes next time
        with path.open("r+b" if answer["offset"] else "wb") as file:
            file.seek(answer["offset"])
            file.write(data)
        self._of[name] = answer["of"]
        return False


@dataclass
class Fetched:
    """What a fetch did.

    Attributes:
        look: how the run stands, see `there.look`.
        files, received: how many came, and their bytes.
        left: group -> its bytes, where that was too much to come this way.
    """

    look: dict[str, Any] = field(default_factory=dict)
    files: int = 0
    received: int = 0
    left: dict[str, int] = field(default_factory=dict)


class Copy:
    """A run directory here that becomes what is at the site, as far as it is fetched.

    Args:
        path: made when missing.
        most: bytes of a group of files that may come so.
        show: called with the bytes that came, of how many.
    Raises: BadInput: there is something else.
    """

    def __init__(
        self, view: View, path: Path, most: int, show: Callable[[int, int], None] = lambda received, size: None
    ) -> None:
        if path.exists() and not path.is_dir():
            raise BadInput(f"{path} is a file; give another --to")
        ours = copies.FOLDER
        if path.exists() and copies.of(path) is None and any(each.name != ours for each in path.iterdir()):
            raise BadInput(f"{path} exists and is not a copy of a remote run; give another --to")
        if (path / ours).is_symlink():
            raise BadInput(f"{path / ours} is a symbolic link; give another --to")
        self.path, self._view, self._most, self._show = path, view, most, show
        self._of = _Identities(path / ours / "identities.json")
        self._listings = 0
        self._gone = False  # whether a file that was listed is there no more

    def fetch(self, groups: Sequence[str]) -> Fetched:
        """Fetch what is new of these groups, and the small files of the run, while nobody else writes into the copy."""
        ours = self.path / copies.FOLDER
        ours.mkdir(parents=True, exist_ok=True)
        with locked(ours / "lock"):
            self._of = _Identities(ours / "identities.json")  # another fetch may have changed them
            return self._fetch(groups)

    def _fetch(self, groups: Sequence[str]) -> Fetched:
        if "figures" in groups:
            self._view.site.ask(self._view.sent.name, ("draw", {}), within_s=DRAW_S)
        self._listings = 0
        look, files = self._view.read(("listing", {"groups": list(groups)}))
        there, done = _without_journals(files), Fetched(look)
        if not self._view.begun:
            raise BadInput(f"run {self._view.sent.name} has written nothing yet; see `steersman remote status`")
        journals = {name: self._view.path / name for name in JOURNALS}
        known = {name: path.read_bytes() for name, path in journals.items() if path.exists()}
        if copies.of(self.path) is None:
            copies.mark(self.path, _origin(self._view.sent, done.look))
        staged, asked = list[tuple[str, Path, str]](), set[str]()
        new = self._new(there, groups, done)
        while True:
            # The first are all that changed; then those that came after the listing, of which the first may speak.
            while heads := {
                path: size for path, size in new.items()
                if _is_head(path) and path not in asked and not (asked and path in self._of)
            }:  # fmt: skip
                staged += self._receive(heads, there, done)
                asked |= heads.keys()
                there = self._listing(groups)
                new = self._new(there, groups, done)
            self._gone = False
            self._place(self._receive({path: size for path, size in new.items() if not _is_head(path)}, there, done))
            if not self._gone:
                break
            there = self._listing(groups)  # groups of walkers were merged meanwhile
            new = self._new(there, groups, done)
            if not any(_is_head(path) and path not in asked and path not in self._of for path in new):
                break
        self._place(each for each in staged if each[0] in there and transfer.group_of(each[0]) not in done.left)
        self._remove([
            path for path in self._of
            if path not in there and (group := transfer.group_of(path)) in ("", *groups) and group not in done.left
        ])  # fmt: skip
        grew = any(_size(self.path / name) != len(text) for name, text in known.items())
        if SEAL in self._of and "rest" not in groups and (done.files or grew):  # it is of what came before
            self._remove([SEAL])
        for name in reversed(known):
            _extend(incoming.place(self.path, name), known[name])
        copies.mark(self.path, _origin(self._view.sent, done.look))
        return done

    def _place(self, received: Iterable[tuple[str, Path, str]]) -> None:
        """Put files in their places as they come, and remember what they are."""
        try:
            for path, part, of in received:
                incoming.place(self.path, path).parent.mkdir(parents=True, exist_ok=True)
                part.replace(incoming.place(self.path, path))
                self._of[path] = of
        except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
            raise bad_answer(f"{error.filename} is a file, and a folder of files") from None
        finally:
            self._of.keep()

    def _remove(self, paths: Iterable[str]) -> None:
        """Remove files that are there no more; first what speaks of the others."""
        for path in sorted(paths, key=_is_head, reverse=True):
            incoming.place(self.path, path).unlink(missing_ok=True)
            del self._of[path]
            with suppress(OSError):  # one of them is not empty
                for folder in itertools.takewhile(self.path.__ne__, (self.path / path).parents):
                    folder.rmdir()
        self._of.keep()

    def _listing(self, groups: Sequence[str]) -> dict[str, Sequence[Any]]:
        """Size and identity of the files there, by path; but the journals, which were read before."""
        self._listings += 1
        if self._listings > LISTINGS:
            raise bad_answer("other files in each listing, without end")
        (files,) = self._view.site.ask(self._view.sent.name, ("listing", {"groups": list(groups)}), within_s=FETCH_S)
        return _without_journals(files)

    def _new(self, there: Mapping[str, Sequence[Any]], groups: Sequence[str], done: Fetched) -> dict[str, int]:
        """Path -> size of what is not here as it is there; but groups that are too large."""
        new = {
            path: size for path, (size, of) in there.items()
            if self._of.get(path) != of or not (self.path / path).exists()
        }  # fmt: skip
        for group in ("", *groups):
            size = sum(size for path, size in new.items() if transfer.group_of(path) == group)
            if size > self._most:
                done.left[group] = size
        return {path: size for path, size in new.items() if transfer.group_of(path) not in done.left}

    def _receive(
        self, sizes: Mapping[str, int], there: Mapping[str, Sequence[Any]], done: Fetched
    ) -> Iterator[tuple[str, Path, str]]:
        """Receive files, in parts that stay when this is interrupted. Gives path, the whole part, and what it is of."""
        parts = {path: _Part(self.path / copies.FOLDER, path, there[path][1]) for path in sizes}
        progress = _Progress()
        while parts:
            pieces, open_, before = [part.next for part in parts.values()], len(parts), done.received
            (answers,) = self._view.site.ask(self._view.sent.name, ("read", {"pieces": pieces}), within_s=FETCH_S)
            for answer in answers:
                part = parts[answer["path"]]
                if answer.get("gone"):
                    self._gone = True
                    if not part.began or part.again() == TRIES:
                        del parts[answer["path"]]  # it is there no more
                    continue
                _expect_at_most(answer, sizes[answer["path"]] + GROWS)
                part.take(_checked(answer), answer)
                done.received += len(answer["data"])
                self._show(done.received, sum(sizes.values()))
                if _complete(answer):
                    del parts[answer["path"]]
                    done.files += 1
                    yield answer["path"], part.path, answer["of"]
            progress.expect(done.received - before, open_ - len(parts))


class _Progress:
    """What an honest site does in each answer: it fills it, or ends a file. Files that are others each time are few."""

    def __init__(self) -> None:
        self._missed = 0

    def expect(self, received: int, ended: int) -> None:
        """Args: received: bytes of an answer; ended: files that it completed. Raises EngineError: too little, again."""
        self._missed += not ended and transfer.is_little(received)
        if self._missed > MISSES:
            raise bad_answer("piece after piece of a file, without ever coming to its end")


class _Part:
    """The beginning of a file, and what file it is the beginning of.

    Args:
        of: what the file is now: the beginning of an older one, which the site may still hold, is of no use. It lacks
            frames of which newer files speak.
    """

    def __init__(self, folder: Path, path: str, of: str) -> None:
        name = hashlib.sha256(path.encode()).hexdigest()[:16]
        self.path, self._of, self._name, self._tries = folder / f"{name}.part", folder / f"{name}.of", path, 0
        for file in (self.path, self._of):
            if file.is_symlink():  # not of ours
                file.unlink()
        if self.began and self._of.read_text() != of:
            self._of.unlink()

    @property
    def began(self) -> bool:
        return self.path.exists() and self._of.exists()

    @property
    def next(self) -> transfer.Piece:
        return (self._name, self.path.stat().st_size, self._of.read_text()) if self.began else (self._name, 0, "")

    def take(self, data: bytes, answer: Mapping[str, Any]) -> None:
        if not answer["offset"]:
            self._of.write_text(answer["of"])
        with self.path.open("r+b" if answer["offset"] else "wb") as file:
            file.seek(answer["offset"])
            file.write(data)
        if _complete(answer):
            self._of.unlink()

    def again(self) -> int:
        """It is another file by now. Returns: how often that happened."""
        self._of.unlink(missing_ok=True)
        self._tries += 1
        return self._tries


class _Identities(dict[str, str]):
    """Path -> what file at the site it was read from; a JSON file."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        with suppress(FileNotFoundError, msgspec.DecodeError):  # everything comes again
            self.update(msgspec.json.decode(file.read_bytes(), type=dict[str, str]))
        self._file = file

    def keep(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(self._file, json.dumps(self))


def _origin(sent: Sent, look: Mapping[str, Any]) -> copies.Origin:
    return copies.Origin(sent.name, sent.endpoint.name, look["path"], look["now"], look["state"])


def _without_journals(files: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    return {path: each for path, each in files.items() if path not in JOURNALS}


def _extend(path: Path, content: bytes) -> None:
    """Write what is new at the end, so that who reads the file goes on; replace it where it is another one."""
    before = path.read_bytes() if path.exists() else b""
    if before and content.startswith(before):
        with path.open("ab") as file:
            file.write(content[len(before) :])
    else:
        replace_file(path, content)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _is_head(path: str) -> bool:
    return Path(path).name in HEADS


def _complete(answer: Mapping[str, Any]) -> bool:
    return bool(answer.get("gone")) or answer["offset"] + len(answer["data"]) >= answer["size"]


def _expect_at_most(answer: Mapping[str, Any], most: int) -> None:
    """Raises: EngineError: a file is larger than it can be."""
    if not answer.get("gone") and answer["offset"] + len(answer["data"]) > most:
        raise bad_answer(f"more than {most:,} bytes of {answer['path']!r}")


def _checked(answer: Mapping[str, Any]) -> bytes:
    """Raises: EngineError: it is not what was read at the site."""
    if hashlib.sha256(answer["data"]).hexdigest() != answer["sha256"]:
        raise EngineError(
            f"{answer['path']} did not arrive as it was sent; fetch again, which continues where it stopped"
        )
    data: bytes = answer["data"]
    return data


def groups_of(what: Iterable[str]) -> list[str]:
    """The groups that a person names; "all" stands for every one."""
    known = (*transfer.GROUPS, "all")
    for name in what:
        if name not in known:
            raise UnknownName("group of files", name, known)
    return [*transfer.GROUPS, "rest"] if "all" in what else list(dict.fromkeys(what))
