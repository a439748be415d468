"""One voice: phrases that made readers stumble do not come back, in code, messages, help, docs or examples."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "docs", "examples", "benchmarks")
ENDINGS = (".py", ".md", ".js", ".html", ".toml")
_RATES = r"seconds?|ms|µs|ns|bytes?|[kKMG]i?B|features?|nodes?|edges?|replicas|rows?|files?|one|threads?|epochs?|steps?"
_RATES += r"|blocks?|messages?|runs?|table|columns?|program|task|transaction|lines?|bias|[\d.,]*\d"
_UNITS = r"replica|epoch|graph|node|edge|core|set|run|second|minute|hour|question|level|step|block|row|report|task"
_UNITS += r"|supernode|recipe|method|transaction|copy|layer|training|query|worker|machine|line"
PHRASES = {
    r"\btold (from|apart|by)\b": "significantly different, distinguish",
    r"\b(go|goes|going|gone|went) on\b": "resume, continue",
    r"\banew\b": "again; restarts",
    r"\b(?<!there )(is|are) no (folder|file|study|run|range|module|text|setting|export|JSON|TOML|assignment|fault)\b": (
        "is not a …, does not exist"
    ),
    rf"\b({_RATES}) an? ({_UNITS})\b(?! (may|can|has|had|took|takes|is|counts|needs))": "per",
    r"\bmind when reading\b": "caveats",
    r"\broom (for|to|that|after|is|in)\b|\b(much|less|full|more|no) room\b": "capacity, space, padding",
    r"\b(is|are) not there\b": "does not exist",
    r"\bfor want of\b": "because there is no …",
    r"\bat hand\b": "available",
}
"""Regular expressions, and what to write instead."""


def violations(text: str) -> list[str]:
    """The lines of a text that have such a phrase, each with what to write instead."""
    return [
        f"line {text.count(chr(10), 0, match.start()) + 1}: {' '.join(match[0].split())!r}: write {better}"
        for phrase, better in PHRASES.items()
        for match in re.finditer(phrase.replace(" ", r"\s+").replace(r"(?<!there\s+)", "(?<!there )"), text, re.I)
    ]


FILES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", ROOT / "results" / "README.md"]
FILES += sorted(
    path
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*")
    if path.suffix in ENDINGS and "egg-info" not in str(path)
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_phrase_that_costs_a_second_reading(path: Path) -> None:
    assert violations(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "text",
    [
        "not told from\nthe best",
        "the same command goes on",
        "begins anew",
        "/nowhere is no folder",
        "one file a question",
        "12 seconds an epoch",
        "Mind when reading",
        "room for more",
        "out is not there",
    ],
)
def test_the_phrases_are_found(text: str) -> None:
    assert len(violations(text)) == 1


def test_plain_sentences_pass() -> None:
    assert violations("There is no file. How many nodes a supernode may have. Ten seconds per epoch; resume.") == []
