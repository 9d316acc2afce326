"""The Dash application: pages by path, assets from this folder only."""

from __future__ import annotations

from importlib import resources
from typing import Any

from dash import Dash, Input, Output, set_props

from base.errors import Retryable
from base.selfmon import Log
from dashboards import shell
from dashboards.deps import Deps
from dashboards.memo import Memo
from dashboards.pages import cost, overview, traces
from dashboards.parts import problem

_log = Log("dashboards")

# The colour scheme is set before the first paint; Mantine finds it as it would have set it.
_INDEX = """<!DOCTYPE html>
<html lang="en">
  <head>
    {%metas%}
    <title>{%title%}</title>
    <link rel="icon" type="image/svg+xml" href="assets/logo.svg">
    {%css%}
    <script>
      (function () {
        var kept = null;
        try { kept = localStorage.getItem("mantine-color-scheme-value"); } catch (e) {}
        var dark = kept === "dark" || (kept !== "light" &&
          matchMedia("(prefers-color-scheme: dark)").matches);
        document.documentElement.setAttribute(
          "data-mantine-color-scheme", dark ? "dark" : "light");
      })();
    </script>
  </head>
  <body>
    {%app_entry%}
    <footer>{%config%}{%scripts%}{%renderer%}</footer>
  </body>
</html>"""


def create_app(deps: Deps) -> Dash:
    """Make the pages; mount `create_app(deps).server` (WSGI) at `/`."""
    app = Dash(
        __name__,
        title="tokenweir",
        update_title="",
        serve_locally=True,
        suppress_callback_exceptions=True,
        assets_folder=str(resources.files("dashboards") / "assets"),
        index_string=_INDEX,
        on_error=_report,
        add_log_handler=False,
        meta_tags=[{"name": "viewport", "content": "width=device-width, initial-scale=1"}],
    )
    app.layout = shell.layout()
    memo: Memo[Any] = Memo(deps.clock)
    shell.register(app, deps, memo)
    pages = {"/": overview, "/cost": cost, "/traces": traces}
    for page in pages.values():
        page.register(app, deps, memo)

    @app.callback(Output("page", "children"), Input("url", "pathname"))
    def route(pathname: str | None) -> Any:
        page = pages.get(pathname or "/")
        if page is None:
            return problem("There is no such page", f"{pathname} is not one of ours.", "calm")
        return page.layout()

    return app


def _report(error: Exception) -> None:
    """Say on the page that a refresh failed; what it showed before stays, marked stale."""
    _log.exception("refresh_failed")
    busy = isinstance(error, Retryable)
    title = "The store is busy" if busy else "This page could not be refreshed"
    set_props("problem", {"children": problem(title, f"{error}"[:300], "warn" if busy else "bad")})
