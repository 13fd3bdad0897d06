"""Render a report as one page of Markdown, which stands beside its pictures. Equal reports give equal bytes."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from plat_analysis.artifact import Figure
from plat_analysis.report.page import Section
from plat_analysis.report.render import inert, markdown
from plat_analysis.report.report import Report


def markdown_page(report: Report) -> str:
    """Return the page. Its figures must have been drawn (`report_files.draw`); others are left out.

    A picture is `NAME.svg`, relative to the page; in a logbook `FOLDER/NAME.svg`. A report names no command,
    so its page is the same wherever it is made; a logbook names those that do it again.
    """
    return "\n\n".join(_parts(Section(report))) + "\n"


def _parts(section: Section) -> Iterator[str]:
    folder = f"{section.published.folder}/" if section.published else ""
    yield f"# {inert(section.title)}"
    yield inert(f"{section.subtitle} · {section.done} of {len(section.runs)} runs with a result")
    for name, text in section.before:
        yield f"**{name}.** {inert(text)}"
    if section.stand_in:
        yield f"Models that really ran: {inert(section.stand_in)}. Compare signs and orders with the paper, not levels."
    if section.artifacts:
        yield "## Results"
    for artifact in section.artifacts:
        if isinstance(artifact, Figure):
            yield f"### {inert(artifact.title)}"
            yield f"![{inert(artifact.title)}]({folder}{artifact.name}.svg)"
            yield from filter(None, [inert(artifact.caption)])
        else:
            yield markdown(artifact).rstrip()
    if section.report.claims:
        yield "## Verdicts"
    for verdict in section.report.claims:
        yield f"**{verdict.word}**: {inert(verdict.sentence)} (`{verdict.id}`)"
        yield "\n".join(f"- {inert(line)}" for line in verdict.lines)
    if section.conclusion:
        yield f"## Conclusion\n\n{inert(section.conclusion)}"
    if section.published:
        file = section.published.file
        yield f"## Do it again\n\n{section.published.how}"
        yield "\n".join(["```", *section.published.commands, "```"])
        yield f"Files: [{file}]({quote(file)}), " + ", ".join(
            f"[{name.removeprefix(folder)}]({quote(name)})" for name in section.published.files
        )
    yield "## How it was made"
    yield "\n".join(f"- {name}: {inert(text)}" for name, text in section.provenance if name != "command")
