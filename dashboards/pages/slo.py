"""One SLO: how its budget stands, when it will be spent, on what, and what was decided about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import dash_mantine_components as dmc
from dash import Dash, Input, Output, State, dcc, html

from cost.read import Window
from dashboards import budget_figure, figures
from dashboards.finding import find_on_enter
from dashboards.pages import slo_burn, slo_groups, slo_head, slo_list, slo_record
from dashboards.pages.events import firing, timeline
from dashboards.parts import aria, card, graph, keys, mark_loaded, problem, waiting, waiting_tiles
from dashboards.reader import SHARED, Reader
from dashboards.refresh import Seen, only_changed, outputs
from dashboards.slo_reads import SloFacts, happened, read_facts, read_versions
from dashboards.slo_state import PATH, WINDOW, SloView, parse_view
from dashboards.state import ViewState, followed, parse_search, with_search
from dashboards.stretches import Stretch, chosen_stretch, stretches
from dashboards.verdict_words import by_urgency
from dashboards.wording import moment
from slo.model import Slo
from slo.spending.model import CostSlo
from slo.verdict import Verdict

PARTS = (
    "slo-notice.children",
    "slo-list-card.hidden",
    "slo-list.children",
    "slo-detail.hidden",
    "slo-head.children",
    "slo-tiles.children",
    "slo-spans.children",
    "slo-burndown-box.children",
    "slo-burndown-keys.children",
    "slo-tiers.children",
    "slo-share-card.hidden",
    "slo-share-box.children",
    "slo-why.children",
    "slo-fired.children",
    "slo-done.children",
    "slo-periods.children",
    "slo-groups-card.hidden",
    "slo-groups.children",
    "slo-find.value",
    "slo-document.children",
    "slo-versions.children",
    "slo-exclusions.children",
)
_SHOWN_WITHOUT_NAME = {"slo-list-card.hidden": False, "slo-detail.hidden": True}


def layout() -> Any:
    """Lay out the list and, hidden until an SLO is named, everything about one."""
    return html.Div(
        [
            html.Div(id="slo-notice", className="slo-notice"),
            card("SLOs", html.Div(waiting(300), id="slo-list"), id="slo-list-card"),
            html.Div(
                [
                    html.Section(waiting(80), id="slo-head", className="card slo-header"),
                    html.Div(waiting_tiles(), id="slo-tiles", className="tiles"),
                    html.Div([_charts(), _rail()], className="split"),
                    card(
                        "Bad share",
                        html.Div(waiting(180), id="slo-share-box"),
                        note=html.Span(
                            "in the header's time range; dotted: allowed", className="dim"
                        ),
                        id="slo-share-card",
                    ),
                    card(
                        "Groups",
                        html.Div(waiting(120), id="slo-groups"),
                        note=html.Div(
                            dmc.TextInput(
                                id="slo-find",
                                placeholder="Find a group, then Enter",
                                size="xs",
                                **aria(label="Find a group"),
                            ),
                            className="filters",
                        ),
                        id="slo-groups-card",
                    ),
                    html.Div(
                        [
                            card("What is judged", html.Div(waiting(120), id="slo-document")),
                            card("Exclusions", html.Div(waiting(120), id="slo-exclusions")),
                            card("Versions", html.Div(waiting(120), id="slo-versions")),
                        ],
                        className="thirds",
                    ),
                ],
                className="stack",
                id="slo-detail",
                hidden=True,
            ),
            dcc.Store(id="slo-seen"),
        ],
        className="stack",
        id="slo",
    )


def _charts() -> Any:
    return html.Div(
        [
            card(
                "Error budget",
                html.Div(
                    [
                        html.Div(waiting(280), id="slo-burndown-box"),
                        html.Div(id="slo-burndown-keys", className="legend chart-legend"),
                    ]
                ),
                note=html.Nav(id="slo-spans", className="segments", **aria(label="Shown part")),
            ),
            card("Burn rate by window", html.Div(waiting(150), id="slo-tiers")),
        ],
        className="stack",
    )


def _rail() -> Any:
    return html.Div(
        [
            card("What burns", html.Div(waiting(120), id="slo-why", className="why")),
            card("Pages and tickets", html.Div(waiting(90), id="slo-fired")),
            card("What was done", html.Div(waiting(60), id="slo-done")),
            card("Calendar periods", html.Div(waiting(60), id="slo-periods")),
        ],
        className="stack side",
    )


def register(app: Dash, reader: Reader) -> None:
    """Fill the page now, on every change of the address, and every few seconds."""
    find_on_enter(app, "slo-find")

    @app.callback(
        *outputs(PARTS),
        Output("slo-seen", "data"),
        Input("url", "search"),
        Input("tick", "n_intervals"),
        State("slo-seen", "data"),
    )
    def refresh(search: str | None, _tick: int | None, seen: Seen | None) -> tuple[Any, ...]:
        parts = fill(reader, search or "")
        mark_loaded(reader.deps.clock)
        return only_changed(seen, parts)


def fill(reader: Reader, search: str) -> Mapping[str, Any]:
    """Answer with everything the page shows, by `PARTS`."""
    parts: Mapping[str, Any] = reader.memo.get(
        ("slo", search), SHARED, lambda: _read(reader, search)
    )
    return {name: parts.get(name) for name in PARTS}


@dataclass(frozen=True, slots=True)
class Choice:
    """What the address asks for among what there is; `verdict` None: nothing to show of it."""

    verdict: Verdict | None
    groups: Sequence[Verdict] = ()
    notice: Any = None


def choose(
    view: SloView, state: ViewState, verdicts: Sequence[Verdict], slos: Sequence[Slo | CostSlo]
) -> Choice:
    """Find the SLO and the group; the most urgent one of those that the filters leave."""
    if view.name is None:
        return Choice(None)
    every = [v for v in verdicts if v.slo == view.name]
    if not every:
        is_known = any(slo.name == view.name for slo in slos)
        waits = problem(f"{view.name} was not judged yet", "It will be within seconds.", "calm")
        missing = problem(f"No SLO is named {view.name}", "These are judged now:", "warn")
        return Choice(None, notice=waits if is_known else missing)
    asked = {k: v for k, v in state.filters().items() if k != "outcome"}
    groups = [v for v in every if all(v.group.get(k, a) == a for k, a in asked.items())]
    if not groups:
        said = f"Nothing of {_who(asked)} was judged in the budget window. Shown are all groups."
        return Choice(by_urgency(every)[0], every, problem("Nothing to show", said, "warn"))
    urgent = by_urgency(groups)[0]
    if view.group is None:
        return Choice(urgent, groups)
    named = next((v for v in every if dict(v.group) == dict(view.group)), None)
    if named is None:
        said = f"Nothing of {_who(view.group)} was judged in the budget window. Shown is the worst."
        return Choice(urgent, groups, problem("There is no such group", said, "warn"))
    # Somebody who asks for another tenant has left the group that the address still names.
    return Choice(named if any(v is named for v in groups) else urgent, groups)


def _who(members: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value or 'unknown'}" for name, value in members.items())


def _read(reader: Reader, search: str) -> Mapping[str, Any]:
    deps = reader.deps
    view, state = parse_view(search), parse_search(search)
    verdicts, slos = deps.verdicts(), _documents(reader)
    choice = choose(view, state, verdicts, slos)
    if choice.verdict is None:
        listed = slo_list.table(verdicts, slos, search)
        notice = _taken_away(reader, view) or choice.notice
        return {**_SHOWN_WITHOUT_NAME, "slo-list.children": listed, "slo-notice.children": notice}
    verdict = choice.verdict
    document = next((each for each in slos if each.name == verdict.slo), None)
    slo = document if isinstance(document, Slo) else None
    stretch = chosen_stretch(verdict, view.span)
    facts = read_facts(reader, slo, verdict, stretch, state.window(deps.clock.now()))
    shown = {
        "slo-notice.children": choice.notice,
        "slo-list-card.hidden": True,
        "slo-detail.hidden": False,
        "slo-groups-card.hidden": len(choice.groups) < 2 and not view.find,
        "slo-groups.children": slo_groups.table(choice.groups, verdict, view, search),
        "slo-find.value": view.find,
    }
    return {**shown, **_detail(verdict, document, stretch, facts, search)}


def _documents(reader: Reader) -> list[Slo | CostSlo]:
    documents: list[Slo | CostSlo] = list(reader.deps.slos())
    documents.extend(reader.deps.costs())
    return documents


def _detail(
    verdict: Verdict,
    document: Slo | CostSlo | None,
    stretch: Stretch,
    facts: SloFacts,
    search: str,
) -> Mapping[str, Any]:
    slo = document if isinstance(document, Slo) else None
    kept = followed(search)
    back = PATH + with_search("", **kept)
    window = Window(verdict.at - verdict.window, verdict.at)
    return {
        "slo-head.children": slo_head.head(document, verdict, back),
        "slo-tiles.children": slo_head.tiles(verdict),
        "slo-spans.children": _spans(verdict, stretch, search),
        "slo-burndown-box.children": graph("slo-burndown", _burndown(verdict, stretch, facts)),
        "slo-burndown-keys.children": _keys(verdict, stretch, facts),
        "slo-tiers.children": slo_burn.tiers(verdict, slo),
        "slo-share-card.hidden": verdict.cost is not None,
        "slo-share-box.children": None if verdict.cost else _share(verdict, facts),
        "slo-why.children": slo_burn.reasons(verdict, slo, search),
        "slo-fired.children": firing(
            [a for a in facts.alerts if a.until is None or a.until >= window.start],
            verdict.at,
            "in the budget window",
        ),
        "slo-done.children": timeline(facts.acts, verdict.at, "for this SLO in the budget window"),
        "slo-periods.children": slo_record.periods(verdict),
        "slo-document.children": slo_record.definition(document),
        "slo-versions.children": slo_record.versions(facts.versions, verdict.at),
        "slo-exclusions.children": slo_record.exclusions(
            facts.exclusions, verdict.at, verdict.window
        ),
    }


def _burndown(verdict: Verdict, stretch: Stretch, facts: SloFacts) -> figures.Chart:
    if not facts.spent:
        where = "the budget window" if stretch.is_rolling else f"this {stretch.key}"
        said = f"No judged request in {where}"
        if verdict.cost is not None:
            said = "Nothing was spent in the budget window, or it is still being read"
        empty = figures.empty("Error budget left", said)
        return replace(empty, height=280)
    seen = happened(facts, Window(stretch.start, stretch.now))
    return budget_figure.outlook(facts.spent, verdict, stretch, seen)


def _share(verdict: Verdict, facts: SloFacts) -> Any:
    seen = happened(facts, facts.window)
    chart = budget_figure.bad_share(facts.counts, facts.window, facts.step, verdict, seen)
    return graph("slo-share", chart)


def _spans(verdict: Verdict, stretch: Stretch, search: str) -> list[Any]:
    """Link to each part of the budget that can be shown."""
    return [
        dcc.Link(
            each.label,
            href=with_search(search, span=None if each.key == WINDOW else each.key) or "?",
            className="chosen" if each.key == stretch.key else "",
        )
        for each in stretches(verdict)
    ]


def _keys(verdict: Verdict, stretch: Stretch, facts: SloFacts) -> list[Any]:
    """Name what the chart shows, and only that."""
    if not facts.spent:
        return []
    window = Window(stretch.start, stretch.now)
    seen = happened(facts, window)
    left = "bad" if (stretch.remaining or 0) < 0 else "accent"
    out = list(keys({"budget left": left}))
    if stretch.is_whole:
        out.append(_key("even-spend", "even spend"))
    forecast = verdict.forecast
    if stretch.is_rolling and forecast is not None and forecast.earliest is not None:
        out.append(_key("foreseen", "forecast, 80 % of cases"))
    if any(a.since < window.end and (a.until or window.end) > window.start for a in seen.alerts):
        out.append(_key("fired", "page or ticket"))
    if seen.acts:
        out.append(_key("act", "act of the control loop"))
    if seen.left_out:
        out.append(_key("left-out", "excluded"))
    if any(window.start <= edit.at <= window.end for edit in seen.edits):
        out.append(_key("edit", "document changed"))
    return out


def _key(kind: str, name: str) -> Any:
    return html.Span([html.I(className=f"swatch swatch-{kind}"), name], className="key")


def _taken_away(reader: Reader, view: SloView) -> Any:
    """Say who took an SLO away, where there was one."""
    if view.name is None or any(each.name == view.name for each in _documents(reader)):
        return None
    found = read_versions(reader.deps.db, view.name)
    if not found:
        return None
    last = found[0]
    when = moment(last.at, reader.deps.clock.now())
    said = f"{last.author} did, {when}. GET /api/v1/slos/{view.name}/versions says what it was."
    return problem(f"{view.name} was taken away", said, "calm")
