"""The image by itself, where nothing is granted: no network, nothing to write to, an unknown user, no HOME, no /tmp."""

import re
import subprocess
from collections.abc import Iterator

import pytest
import yaml

from cluster.release import done, told

UNKNOWN_USER = "1000660000:1000660000"

ASKS_THE_MODEL = """
import asyncio, json, urllib.request
from fleetagent.sim.model import ModelConfig, running

async def main():
    async with running(ModelConfig()) as server:
        asked = json.dumps({"model": "qwen3.5-122b", "messages": [
            {"role": "system", "content": "You are one."}, {"role": "user", "content": "Hold?"}]}).encode()
        request = urllib.request.Request(server.url + "/chat/completions", asked, {"Content-Type": "application/json"})
        answer = await asyncio.to_thread(lambda: json.load(urllib.request.urlopen(request)))
        print(answer["choices"][0]["message"]["role"], answer["usage"]["prompt_tokens"] > 0)

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def bare(image: str) -> Iterator[str]:
    """The image without its folders for temporary files."""
    tag = f"{image}-bare"
    lines = f"FROM {image}\nUSER 0\nRUN rm -rf /tmp /var/tmp\nUSER 65532:65532\n"
    told("docker", "build", "--quiet", "--tag", tag, "-", stdin=lines)
    yield tag
    told("docker", "image", "rm", "--force", tag)


def run(image: str, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
    """One command in a container to which nothing is granted."""
    hardened = ["--network=none", "--read-only", f"--user={UNKNOWN_USER}", "--cap-drop=ALL"]
    hardened += ["--security-opt=no-new-privileges", "--entrypoint=env"]
    hardened += [f"--env={name}={value}" for name, value in env.items()]
    return done("docker", "run", "--rm", *hardened, image, "-u", "HOME", *command)


def printed(image: str, *command: str) -> str:
    ended = run(image, *command)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def test_nothing_is_there_to_write_to(bare: str) -> None:
    said = printed(bare, "sh", "-c", 'id -u; ls -d /tmp /var/tmp; touch /x; echo "HOME=$HOME"').splitlines()

    assert said == ["1000660000", "HOME="], "the other tests would show nothing"


def test_it_prints_the_definition_of_the_resource(bare: str) -> None:
    assert yaml.safe_load(printed(bare, "fleetagent", "crd"))["metadata"]["name"] == "fleetagents.fleetagent.dev"


def test_a_database_that_cannot_be_reached_is_one_line_and_exit_code_1(bare: str) -> None:
    ended = run(bare, "fleetagent", "migrate", FLEETAGENT_DATABASE_URL="postgresql://u:secret@10.1.2.3/fleetagent")

    assert ended.returncode == 1
    assert len(ended.stderr.splitlines()) == 1, ended.stderr
    assert "the database cannot be used" in ended.stderr
    assert "secret" not in ended.stderr


def test_the_operator_starts_as_far_as_its_database_and_waits_for_it(bare: str) -> None:
    until_killed = ("timeout", "--signal=TERM", "20", "fleetagent", "operator")
    ended = run(bare, *until_killed, FLEETAGENT_DATABASE_URL="postgresql://u:secret@10.1.2.3/fleetagent")

    assert ended.returncode == 124, ended.stderr  # of `timeout`: it was told to end
    assert "the database cannot be used" in ended.stderr
    assert "tried again every" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_tokens_are_counted_by_the_vocabulary_inside(bare: str) -> None:
    counts = "from fleetagent.adapters.tokens import TiktokenTokens; print(TiktokenTokens().estimate('500 proofs'))"

    assert int(printed(bare, "python", "-c", counts)) == 4


def test_the_simulated_model_answers(bare: str) -> None:
    assert printed(bare, "python", "-c", ASKS_THE_MODEL) == "assistant True"


def test_a_schedule_may_name_a_time_zone(bare: str) -> None:
    zone = "from zoneinfo import ZoneInfo; print(ZoneInfo('Europe/Berlin'))"

    assert printed(bare, "python", "-c", zone) == "Europe/Berlin"


def test_the_migrations_are_inside(bare: str) -> None:
    newest = "from fleetagent.adapters.postgres.revisions import head; print(head())"

    assert re.fullmatch(r"\d{4}", printed(bare, "python", "-c", newest))


def test_its_user_is_a_number_that_is_not_root(image: str) -> None:
    assert told("docker", "image", "inspect", "--format", "{{.Config.User}}", image).strip() == "65532:65532"


def test_neither_pip_nor_a_compiler_is_inside(image: str) -> None:
    there = printed(image, "sh", "-c", "ls /opt/fleetagent/bin; command -v gcc git curl; true").split()

    assert "fleetagent" in there
    assert not [name for name in there if name.startswith("pip") or "/" in name]
