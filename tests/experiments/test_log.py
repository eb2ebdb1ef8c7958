"""What is quoted from a log where a worker could say no more."""

from pathlib import Path

import pytest

from experiments import log


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", None),
        ("one\ntwo\n\n", "two"),
        (
            "Traceback (most recent call last):\n  File x\njax.errors.JaxRuntimeError: "
            "UNKNOWN: no\nsome last words\n",
            "jax.errors.JaxRuntimeError: UNKNOWN: no",
        ),
        (
            "F1130 13:57:28.527437   12558 flags.cc:234] Unknown flag --xla_foo=1\n",
            "Unknown flag --xla_foo=1",
        ),
        ("ValueError\nKeyboardInterrupt\n", "KeyboardInterrupt"),
    ],
)
def test_last_words(text: str, words: str | None):
    assert log.last_words(text) == words


def test_a_reason_is_one_printable_line_of_bounded_length():
    reason = log.one_line("a\nb\t\x1b[31mred\x00 " + "x" * 1000)
    assert reason.startswith("a b ?[31mred? xxx")
    assert reason.isprintable()
    assert len(reason) == 300


def test_an_excerpt_is_the_beginning_and_the_end(tmp_path: Path):
    path = tmp_path / "log"
    path.write_bytes(b"begin " + b"x" * 10_000_000 + b" end \xff")
    excerpt = log.excerpt(path)
    assert excerpt.startswith("begin ")
    assert excerpt.endswith(" end \N{REPLACEMENT CHARACTER}")
    assert len(excerpt) < 200_000


@pytest.mark.parametrize("size", [0, 10, 2**16, 2**16 + 1, 2**17, 2**17 + 1])
def test_no_byte_of_a_short_log_is_quoted_twice(tmp_path: Path, size: int):
    path = tmp_path / "log"
    path.write_text("x" * size)
    assert len(log.excerpt(path)) == min(size, 2**17)


def test_a_log_that_is_not_there_is_empty(tmp_path: Path):
    assert log.excerpt(tmp_path / "none") == ""
