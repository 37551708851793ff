"""Write the pages ``docs/papers/PAPER.md`` from the stored results: published, obtained, interval, verdict, why.

Pictures are drawn beside them. ``counts.txt`` says how many claims of each paper have which verdict, and ``open.txt``
lists those that are different and unexplained, or not decided.

python benchmarks/paper_pages.py            # --check: only say whether a page is out of date
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from paper_claims import (
    CLOSE,
    EXPLAINED,
    FOLDER,
    NOT_RUN,
    UNDECIDED,
    UNEXPLAINED,
    VERDICTS,
    Claim,
    Result,
    count_verdicts,
)

PAGES = Path(__file__).resolve().parents[1] / "docs" / "papers"

UNCOUNTED = (
    (
        "On other data",
        "What the paper says of data that are not at hand, on public ones that stand in for them. A difference may be "
        "one between the data.",
    ),
    ("Other readings", "What the paper leaves open, read otherwise."),
    ("Not in the paper", "The same comparisons where the paper has none."),
)


def main() -> None:
    """Write or check all pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page is out of date")
    check = parser.parse_args().check
    for name, text in write_all().items():
        page = PAGES / name
        if check and (not page.exists() or page.read_text(encoding="utf-8") != text):
            sys.exit(f"{name} is not what the stored results say; run python benchmarks/paper_pages.py")
        if not check:
            page.write_text(text, encoding="utf-8")


def write_all() -> dict[str, str]:
    """Return all files by name."""
    results = [Result.load(path) for path in sorted(FOLDER.glob("*.json"))]
    files = {name: text for result in results for name, text in write_files(result).items()}
    return files | {"counts.txt": write_counts(results), "open.txt": write_open(results)}


def write_files(result: Result) -> dict[str, str]:
    """Return the page of a paper and its pictures, by file name."""
    pictures = {f"{result.paper}-{picture.name}.svg": picture.svg() for picture in result.pictures}
    return {f"{result.paper}.md": write_page(result)} | pictures


def write_counts(results: Sequence[Result]) -> str:
    """Return how many claims of each paper have which verdict: on the papers' data, and on others."""
    parts = (("claim of the paper", "claims"), ("the same, on other data", "stand_ins"))
    lines = []
    for title, name in parts:
        lines += [f"| {title} | {' | '.join(VERDICTS)} | close or explained, of those run |"]
        lines += ["|---" + "|--:" * (len(VERDICTS) + 1) + "|"]
        groups = {result.paper: getattr(result, name) for result in results if getattr(result, name)}
        groups["all"] = tuple(claim for claims in groups.values() for claim in claims)
        for paper, claims in groups.items():
            counts = count_verdicts(claims)
            n_run, n_good = len(claims) - counts[NOT_RUN], counts[CLOSE] + counts[EXPLAINED]
            share = f"{n_good} of {n_run}, {100 * n_good / n_run:.1f} %" if n_run else "–"
            cells = [str(counts[verdict]) for verdict in VERDICTS]
            link = paper if paper == "all" else f"[{paper}](papers/{paper}.md)"
            lines.append(f"| {link} | {' | '.join(cells)} | {share} |")
        lines.append("")
    return "\n".join(lines)


def write_open(results: Sequence[Result]) -> str:
    """Return the claims on the papers' data that are different and unexplained, or not decided."""
    lines = ["| | published | obtained | repeats | interval | verdict |", "|---|--:|--:|--:|--:|---|"]
    for result in results:
        for claim in result.claims:
            if claim.verdict in (UNEXPLAINED, UNDECIDED):
                _, *cells, _ = claim_cells(claim)
                where = f"[{result.paper}](papers/{result.paper}.md), {claim.item}: {claim.what}"
                lines.append(f"| {where} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def write_page(result: Result) -> str:
    """Return the page of a paper."""
    above = any(claim.above is not None for claim in result.claims)
    lines = [
        f"# {result.title}",
        "",
        "<!-- Written by benchmarks/paper_pages.py from a stored result. Do not edit by hand. -->",
        "",
        f"`{result.command}`, {result.seeds}, commit {result.commit}, {result.date}. "
        f"{_counted(result.claims).capitalize()}.",
        "",
        "The interval is where a mean of as many repeats as the paper has would lie in 95 of 100 cases, if its figures "
        "were drawn as ours. *Close*: the published figure, with its rounding, lies in it. *Different, "
        "explained*: what explains it can be checked on this page, where *why* says."
        + (
            " Where the paper says *above*: the whole interval is above; *not decided*: only a part is."
            if above
            else ""
        ),
    ]
    for item in dict.fromkeys(claim.item for claim in result.claims):
        lines += ["", f"## {item}", *_table(result.claims, item), *_shown(result, item)]
    for note in result.notes:
        lines += ["", note]
    uncounted = (result.stand_ins, result.readings, result.further)
    for claims, (heading, said) in zip(uncounted, UNCOUNTED, strict=True):
        if claims:
            lines += ["", f"## {heading}", "", f"{said} Not counted above: {_counted(claims)}."]
        for item in dict.fromkeys(claim.item for claim in claims):
            lines += ["", f"### {item}", *_table(claims, item), *_shown(result, item)]
    for table in result.tables:
        lines += ["", f"## {table.title}", "", f"| {' | '.join(table.header)} |"]
        lines.append("|---" + "|--:" * (len(table.header) - 1) + "|")
        lines += [f"| {' | '.join(row)} |" for row in table.rows]
        lines += ["", table.note] if table.note else []
    return "\n".join(lines) + "\n"


def _counted(claims: Sequence[Claim]) -> str:
    return "; ".join(f"{n} {verdict}" for verdict, n in count_verdicts(claims).items() if n)


def _shown(result: Result, item: str) -> list[str]:
    """The pictures that belong to a heading."""
    drawn = [picture for picture in result.pictures if picture.item == item]
    return [line for one in drawn for line in ("", f"![{one.title}]({result.paper}-{one.name}.svg)")]


def _table(claims: Sequence[Claim], item: str) -> list[str]:
    """The claims of a heading; without the last column if there is nothing to say in it."""
    rows = [claim_cells(claim) for claim in claims if claim.item == item]
    names = ["", "published", "obtained", "repeats", "interval", "verdict", "why"]
    n_columns = len(names) if any(row[-1] for row in rows) else len(names) - 1
    aligned = ["---", *["--:"] * 4, "---", "---"][:n_columns]
    lines = ["", f"| {' | '.join(names[:n_columns])} |".replace("|  |", "| |"), f"|{'|'.join(aligned)}|"]
    return lines + [f"| {' | '.join(row[:n_columns])} |" for row in rows]


def claim_cells(claim: Claim) -> list[str]:
    """Return what a table says of a claim: what it is, published, obtained, repeats, interval, verdict and why."""
    published = "says so" if claim.published is None else _number(claim.published, claim.unit)
    if claim.above is not None:
        published = f"above {_number(claim.above, claim.unit)}"
    if claim.verdict == NOT_RUN:
        return [claim.what, published, "–", "0", "–", claim.verdict, claim.why]
    unit = "" if claim.published is None and claim.above is None else claim.unit
    interval = "–"
    if claim.interval is not None:
        low, high = claim.interval
        if "share of" in claim.what:  # it cannot be beyond nothing and all
            low, high = max(low, 0.0), min(high, 100.0 if claim.unit == "%" else 1.0)
        interval = f"{_number(low, '')} to {_number(high, unit)}"
    why = "" if claim.evidence and claim.verdict == CLOSE else claim.why  # it would explain a difference
    return [claim.what, published, _number(claim.mean, unit), str(claim.n_obtained), interval, claim.verdict, why]


def _number(value: float, unit: str) -> str:
    text = f"{value:.2f}" if abs(value) < 100 else f"{value:.1f}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{text} {unit}".strip()


if __name__ == "__main__":
    main()
