"""Every console example in README.md and docs/ is run, its output compared.

A block marked `console` holds `$ scaling …` commands, each followed by what it prints.
A line `…` stands for any lines. Blocks of other kinds (`sh`, `text`) are not run.
"""

import ast
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.fast

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def examples():
    for page in PAGES:
        for block in re.findall(r"```console\n(.*?)```", page.read_text(), re.DOTALL):
            for example in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, _, output = example.partition("\n")
                yield pytest.param(command, output, id=f"{page.name}: {command}")


def matches(pattern: str, output: str) -> bool:
    parts = re.split(r"^…\n", pattern.strip() + "\n", flags=re.MULTILINE)
    regex = r"(?:.*\n)*?".join(re.escape(part) for part in parts)
    return re.fullmatch(regex, output.strip() + "\n") is not None


@pytest.mark.parametrize(("command", "output"), list(examples()))
def test_console_example(command, output):
    program, *arguments = shlex.split(command)
    assert program == "scaling"
    done = subprocess.run(
        [sys.executable, "-P", "-m", "experiments.cli", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"COLUMNS": "80", "PATH": os.environ["PATH"]},
        timeout=60,
        check=False,
    )
    # Tables are padded; Markdown is kept free of trailing spaces.
    printed = re.sub(r" +$", "", done.stdout + done.stderr, flags=re.MULTILINE)
    assert matches(output, printed), printed


def test_the_comparison_can_fail():
    assert matches("a\n…\nd\n", "a\nb\nc\nd\n")
    assert not matches("a\n…\nd\n", "a\nb\nc\n")
    assert not matches("a\n", "b\n")


def test_every_link_within_the_docs_leads_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def map_of_the_tree() -> str:
    lines = [
        "# Map of the tree",
        "",
        "The first line of every file, made by `UPDATE_GOLDEN=1 make test-fast`.",
    ]
    for folder in ("meshes", "models", "scaling", "experiments"):
        for package in sorted((ROOT / folder).glob("**/__init__.py")):
            place = package.parent
            lines += ["", f"## {place.relative_to(ROOT)}/", "", "| file | is |"]
            lines += ["|---|---|"]
            for file in sorted(place.glob("*.py")):
                says = ast.get_docstring(ast.parse(file.read_text()))
                assert says, f"{file} has no docstring"
                if file != package:
                    lines.append(f"| `{file.name}` | {says.splitlines()[0]} |")
    return "\n".join(lines) + "\n"


def test_the_map_is_true():
    page = ROOT / "docs" / "map.md"
    if os.environ.get("UPDATE_GOLDEN"):
        page.write_text(map_of_the_tree())
    assert page.read_text() == map_of_the_tree()
