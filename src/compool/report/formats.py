"""Tables as text: for the terminal, Markdown, LaTeX, HTML and CSV."""

import csv
import html
import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from compool.study.columns import escape_cell

if TYPE_CHECKING:
    import rich.table


class Cell(NamedTuple):
    """A piece of text, and how it is marked: ``"bold"``, ``"underline"``, ``"muted"`` or not at all."""

    text: str
    mark: str = ""


@dataclass(frozen=True)
class Table:
    """A table. Its first columns are text, the others are numbers."""

    name: str
    """The name of its files."""
    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str
    """An explanation of the numbers."""
    records: tuple[dict[str, Any], ...]
    """The same numbers and more, unformatted, for CSV."""
    texts: int = 1
    """How many of the first columns are text."""
    files_only: tuple[str, ...] = ()
    """The headings of columns that the terminal leaves out, because it is narrow."""


def markdown(table: Table) -> str:
    r"""A table in Markdown.

    Example:
        >>> print(markdown(Table("t", "Title", ("set", "x"), ((Cell("a|b"), Cell("1.0", "bold")),), "Note.", ())))
        ### Title
        <BLANKLINE>
        | set | x |
        |---|---:|
        | a\|b | **1.0** |
        <BLANKLINE>
        Note.
        <BLANKLINE>
    """
    around = {"bold": "**{}**", "underline": "<u>{}</u>"}

    def formatted(cell: Cell) -> str:
        text = re.sub(r"([\\|*_`<>\[\]])", r"\\\1", cell.text.replace("\n", " "))
        return around.get(cell.mark, "{}").format(text) if text else ""

    lines = [
        _markdown_line(formatted(Cell(heading)) for heading in table.header),
        f"{'|---' * table.texts}{'|---:' * (len(table.header) - table.texts)}|",
    ]
    lines += [_markdown_line(map(formatted, row)) for row in table.rows]
    return "\n".join([f"### {table.title}", "", *lines, "", table.note, ""])


def _markdown_line(cells: Any) -> str:
    return f"| {' | '.join(cells)} |"


_TEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "±": r"$\pm$", "−": "$-$", "–": "--", "→": r"$\to$", "≥": r"$\geq$", "<": "$<$", ">": "$>$",
    "·": r"$\cdot$", "…": r"\dots{}",
} | {special: "\\" + special for special in "&%$#_{}"}  # fmt: skip


def latex(table: Table) -> str:
    r"""A table in LaTeX, for the package booktabs.

    Example:
        >>> "a\\_b & \\textbf{1 $\\pm$ 2} \\\\" in latex(
        ...     Table("t", "Title", ("set", "x"), ((Cell("a_b"), Cell("1 ± 2", "bold")),), "", ())
        ... )
        True
    """
    around = {"bold": r"\textbf{%s}", "underline": r"\underline{%s}", "muted": r"\textit{%s}"}

    def formatted(cell: Cell) -> str:
        text = "".join(_TEX.get(letter, letter) for letter in cell.text)
        return around.get(cell.mark, "%s") % text if text else ""

    lines = [" & ".join(formatted(Cell(heading)) for heading in table.header) + r" \\", r"\midrule"]
    lines += [" & ".join(map(formatted, row)) + r" \\" for row in table.rows]
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\begin{{tabular}}{{{'l' * table.texts}{'r' * (len(table.header) - table.texts)}}}",
            r"\toprule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
            rf"\caption{{{formatted(Cell(f'{table.title}. {table.note}'))}}}",
            r"\end{table}",
            "",
        ]
    )


def as_csv(table: Table) -> str:
    """The records of a table as CSV, with text escaped so that spreadsheets do not treat it as a formula.

    Example:
        >>> print(as_csv(Table("t", "Title", (), (), "", ({"dataset": "a", "mean": 0.5},))))
        dataset,mean
        a,0.5
        <BLANKLINE>
    """
    out = io.StringIO()
    if table.records:
        writer = csv.DictWriter(out, list(table.records[0]), lineterminator="\n")
        writer.writeheader()
        for record in table.records:
            writer.writerow(
                {key: escape_cell(value) if isinstance(value, str) else value for key, value in record.items()}
            )
    return out.getvalue()


def as_html(table: Table) -> str:
    """A table in HTML; everything in it is escaped.

    Example:
        >>> table = Table("t", "Title", ("x",), ((Cell("<1>", "bold"),),), "", ())
        >>> '<td class="text"><b>&lt;1&gt;</b></td>' in as_html(table)
        True
    """
    around = {"bold": "<b>{}</b>", "underline": "<u>{}</u>", "muted": '<span class="muted">{}</span>'}

    def formatted(cell: Cell) -> str:
        return around.get(cell.mark, "{}").format(html.escape(cell.text)) if cell.text else ""

    kinds = [' class="text"' if column < table.texts else "" for column in range(len(table.header))]
    head = "".join(f"<th{kind}>{html.escape(text)}</th>" for kind, text in zip(kinds, table.header, strict=True))
    rows = "".join(
        f"<tr>{''.join(f'<td{kind}>{formatted(cell)}</td>' for kind, cell in zip(kinds, row, strict=True))}</tr>\n"
        for row in table.rows
    )
    return (
        f'<figure class="table"><figcaption>{html.escape(table.title)}</figcaption><div class="scroll"><table>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>"
        + (f'<p class="note">{html.escape(table.note)}</p>' if table.note else "")
        + "</figure>"
    )


def terminal(table: Table) -> "rich.table.Table":
    """A table for rich's console.

    Example:
        >>> terminal(Table("t", "Title", ("set", "x"), ((Cell("a"), Cell("1", "bold")),), "", ())).row_count
        1
    """
    import rich.box
    import rich.table
    from rich.markup import escape

    around = {"bold": "[bold]{}[/]", "underline": "[underline]{}[/]", "muted": "[dim]{}[/]"}
    rich_table = rich.table.Table(
        title=table.title, title_justify="left", box=rich.box.SIMPLE_HEAD, padding=(0, 1, 0, 0), caption=table.note,
        caption_justify="left",
    )  # fmt: skip
    columns = [column for column, heading in enumerate(table.header) if heading not in table.files_only]
    for column in columns:  # in a narrow window, cells wrap
        justify: Literal["left", "right"] = "left" if column < table.texts else "right"
        rich_table.add_column(escape(table.header[column]), justify=justify, overflow="fold")
    for row in table.rows:
        cells = [row[column] for column in columns]
        rich_table.add_row(
            *(around.get(cell.mark, "{}").format(escape(cell.text)) if cell.text else "" for cell in cells)
        )
    return rich_table
