"""`.fleetagent/dev.json` is there while there is something to attach to."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fleetagent.dev.attach import Addresses, DevFile
from fleetagent.errors import CannotStart

ADDRESSES = Addresses(
    kubeconfig="/k",
    databaseURL="postgresql://postgres:secret@127.0.0.1:5432/fleetagent",
    marketURL="http://127.0.0.1:1",
    modelURL="http://127.0.0.1:2/v1",
    workerURL="http://127.0.0.1:3",
    webURL="http://127.0.0.1:4",
    pid=7,
)


def test_the_file_names_everything_is_ours_alone_and_goes_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / ".fleetagent" / "dev.json"
    with DevFile.claimed(tmp_path) as file:
        assert not path.exists()
        file.write(ADDRESSES)

        keys = ["kubeconfig", "databaseURL", "marketURL", "modelURL", "workerURL", "webURL", "pid"]
        assert list(json.loads(path.read_text())) == keys
        assert path.stat().st_mode & 0o777 == 0o600

        file.write(replace(ADDRESSES, pid=8))
        assert json.loads(path.read_text())["pid"] == 8

    assert list(tmp_path.iterdir()) == []


def test_what_else_is_in_the_folder_stays(tmp_path: Path) -> None:
    (tmp_path / ".fleetagent").mkdir()
    other = tmp_path / ".fleetagent" / "other"
    other.touch()

    with DevFile.claimed(tmp_path) as file:
        file.write(ADDRESSES)

    assert list((tmp_path / ".fleetagent").iterdir()) == [other]


def test_a_second_demo_in_the_same_directory_is_refused(tmp_path: Path) -> None:
    with DevFile.claimed(tmp_path) as file:
        file.write(ADDRESSES)
        with pytest.raises(CannotStart, match=r"runs in .* already"), DevFile.claimed(tmp_path):
            pytest.fail("both had it")

        assert (tmp_path / ".fleetagent" / "dev.json").exists()


def test_a_file_that_a_killed_demo_left_is_removed_at_once(tmp_path: Path) -> None:
    (tmp_path / ".fleetagent").mkdir()
    stale = tmp_path / ".fleetagent" / "dev.json"
    stale.write_text("{}")

    with DevFile.claimed(tmp_path):
        assert not stale.exists()
