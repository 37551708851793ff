"""Write the pages ``docs/papers/PAPER.md`` from the stored results: published, obtained, interval, verdict, why.

python benchmarks/paper_pages.py            # --check: only say whether a page is out of date
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from paper_claims import FOLDER, NOT_RUN, Claim, Result, count_verdicts

PAGES = Path(__file__).resolve().parents[1] / "docs" / "papers"


def main() -> None:
    """Write or check all pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page is out of date")
    check = parser.parse_args().check
    for path in sorted(FOLDER.glob("*.json")):
        page, text = PAGES / f"{path.stem}.md", write_page(Result.load(path))
        if check and (not page.exists() or page.read_text(encoding="utf-8") != text):
            sys.exit(f"{page.name} is not what {path.name} says; run python benchmarks/paper_pages.py")
        if not check:
            page.write_text(text, encoding="utf-8")


def write_page(result: Result) -> str:
    """Return the page of a paper."""
    counts = {verdict: n for verdict, n in count_verdicts(result.claims).items() if n}
    lines = [
        f"# {result.title}",
        "",
        "<!-- Written by benchmarks/paper_pages.py from a stored result. Do not edit by hand. -->",
        "",
        f"`{result.command}`, {result.seeds}, commit {result.commit}, {result.date}. "
        + "; ".join(f"{n} {verdict}" for verdict, n in counts.items())
        + ".",
        "",
        "The interval is where a mean of as many repeats as the paper has would lie in 95 of 100 cases, if its figures "
        "were drawn as ours. *Close*: the published figure, with its rounding, lies in it.",
    ]
    for item in dict.fromkeys(claim.item for claim in result.claims):
        lines += ["", f"## {item}", "", "| | published | obtained | repeats | interval | verdict | why |"]
        lines.append("|---|--:|--:|--:|--:|---|---|")
        lines += [_row(claim) for claim in result.claims if claim.item == item]
    for note in result.notes:
        lines += ["", note]
    return "\n".join(lines) + "\n"


def _row(claim: Claim) -> str:
    published = "says so" if claim.published is None else _number(claim.published, claim.unit)
    if claim.verdict == NOT_RUN:
        return f"| {claim.what} | {published} | – | 0 | – | {claim.verdict} | {claim.why} |"
    unit = "" if claim.published is None else claim.unit
    interval = "–" if claim.interval is None else " to ".join(_number(end, unit) for end in claim.interval)
    mean, n = _number(claim.mean, unit), len(claim.obtained)
    return f"| {claim.what} | {published} | {mean} | {n} | {interval} | {claim.verdict} | {claim.why} |"


def _number(value: float, unit: str) -> str:
    text = f"{value:.2f}" if abs(value) < 100 else f"{value:.1f}"
    return f"{text} {unit}".strip()


if __name__ == "__main__":
    main()
