"""What was read, and findings about the reading itself. They come first because everything else depends on them."""

from __future__ import annotations

from nanopace.diagnosis.result import Finding, Model, Number, Source
from nanopace.diagnosis.time.counting import log_interval
from nanopace.run import Run


def describe_source(run: Run) -> Source:
    """Which log this is, and which iterations it covers."""
    rows = run.logged
    return Source(
        name=run.name,
        format=run.format,
        rows=rows.lines,
        first_iteration=rows.iteration[0] if len(rows) else 0,
        last_iteration=rows.last_iteration[-1] if len(rows) else 0,
        log_interval=log_interval(run),
        ending=run.ending,
        stage=run.stage,
    )


def describe_model(run: Run) -> Model:
    """The size of the model, as far as known."""
    return Model(
        parameters=run.number("parameters"),
        flops_per_token=run.number("flops_per_token"),
        flops_per_token_causal=run.number("flops_per_token_causal"),
    )


def reading_findings(run: Run) -> list[Finding]:
    """Findings about omissions, text around the log, a truncated file, unreadable lines and rows of several
    iterations."""
    findings = []
    if run.runs_of_file is not None:
        findings.append(Finding("many_runs", {"runs": run.runs_of_file}))
    if run.other_ranks is not None:
        ranks = run.other_ranks
        findings.append(Finding("other_ranks", {"rank": ranks.rank, "ranks": ranks.ranks, "rows": ranks.rows}))
    if run.rows_of_others:
        findings.append(Finding("interleaved_processes", {"rows": run.rows_of_others}))
    if run.quoted is not None:
        findings.append(Finding("quoted_log", _quoted(*run.quoted, rows=run.logged.lines)))
    if run.truncated:
        findings.append(Finding("log_truncated", {"last_iteration": run.logged.last_iteration[-1]}))
    if run.unread is not None:
        unread = run.unread
        findings.append(
            Finding("unread_evaluations", {"count": unread.count, "line": unread.line, "line_text": unread.text})
        )
    if run.rows_cover > 1:
        exact = run.rows_cover if run.rows_cover_shown_by != "clock" else None  # else it differs between rows
        findings.append(Finding("rows_cover_several", {"iterations": exact, "shown_by": run.rows_cover_shown_by}))
    findings += [Finding(each.code, each.numbers) for each in run.caveats if not _settled(each.code, run)]
    return findings


def _settled(caveat: str, run: Run) -> bool:
    """Whether a flag has since supplied what the log does not state."""
    return caveat == "gpus_unknown" and run.number("gpu_count") is not None


def _quoted(log_lines: int, lines: int, rows: int) -> dict[str, Number]:
    """A log with some text around it, or a text that quotes a few rows."""
    mostly_log = 2 * log_lines >= lines
    return {
        "log_lines": log_lines if mostly_log else None,
        "lines": lines if mostly_log else None,
        "rows": None if mostly_log else rows,
    }
