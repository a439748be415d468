"""Pieces of the page in HTML. Text from outside is escaped."""

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def card(text: str, title: str = "", note: str = "", anchor: str = "") -> str:
    """A card with a title and a note, around `text`, which is HTML.

    Example:
        >>> card("<p>x</p>", "A & B")
        '<div class="card"><h3>A &amp; B</h3><p>x</p></div>'
    """
    identity = f' id="{html.escape(anchor)}"' if anchor else ""
    heading = f"<h3>{html.escape(title)}</h3>" if title else ""
    paragraph = f'<p class="muted">{html.escape(note)}</p>' if note else ""
    return f'<div class="card"{identity}>{heading}{paragraph}{text}</div>'


def plot(kind: str, label: str, **selectors: str) -> str:
    """An empty element for a plot: `kind` is the plot that the page's script draws, `selectors` choose its data.

    Example:
        >>> plot("boxes", "test accuracy", dataset="NCI1")
        '<div class="plot" data-boxes data-label="test accuracy" data-dataset="NCI1"></div>'
    """
    attributes = "".join(f' data-{key}="{html.escape(value)}"' for key, value in {"label": label, **selectors}.items())
    return f'<div class="plot" data-{kind}{attributes}></div>'


def commands(text: str, *lines: str) -> str:
    """Commands that a reader can run, one per line.

    Example:
        >>> commands("Train some:", "compool run")
        '<p>Train some:</p><pre>compool run</pre>'
    """
    return f"<p>{html.escape(text)}</p><pre>{html.escape(chr(10).join(lines))}</pre>"


def fact_tiles(facts: Sequence[tuple[str, str]]) -> str:
    """Numbers in large type, each with a name.

    Example:
        >>> fact_tiles([("3", "runs")])
        '<div class="facts"><div><b>3</b><span>runs</span></div></div>'
    """
    lines = (f"<div><b>{html.escape(value)}</b><span>{html.escape(name)}</span></div>" for value, name in facts)
    return f'<div class="facts">{"".join(lines)}</div>'


def caveats(warnings: Sequence[str]) -> str:
    """A list of warnings; nothing if there are none.

    Example:
        >>> caveats([])
        ''
    """
    if not warnings:
        return ""
    lines = "".join(f"<li>{html.escape(warning)}</li>" for warning in warnings)
    return f'<div class="warnings" role="note"><b>Caveats</b><ul>{lines}</ul></div>'


def definitions(facts: Mapping[str, Any]) -> str:
    """Names and values; those without a value are left out.

    Example:
        >>> definitions({"seed": 0, "note": ""})
        '<dl><div><dt>seed</dt><dd>0</dd></div></dl>'
    """
    lines = (
        f"<div><dt>{html.escape(str(key).replace('_', ' '))}</dt><dd>{html.escape(str(value))}</dd></div>"
        for key, value in facts.items()
        if value not in (None, "")
    )
    return f"<dl>{''.join(lines)}</dl>"


def unique(values: Iterable[str]) -> str:
    """The distinct values, sorted, on one line.

    Example:
        >>> unique(["b", "a", "b"])
        'a, b'
    """
    return ", ".join(sorted(set(values)))
