"""The Dash application: pages by path, assets from this folder only."""

from __future__ import annotations

from datetime import timedelta
from importlib import resources
from typing import Any

from dash import Dash, Input, Output, set_props
from flask import request

from base.errors import Retryable
from base.selfmon import Log
from dashboards import shell
from dashboards.deps import Deps
from dashboards.first import WAIT_S, FirstView
from dashboards.memo import Memo
from dashboards.pages import cost, ingest, overview, slo, traces
from dashboards.parts import problem
from dashboards.reader import Reader

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
    <!--first view-->
    {%app_entry%}
    <footer>
      {%config%}
      <template id="scripts">{%scripts%}{%renderer%}</template>
      <script>
        // Scripts wait until the first view is painted: they would keep the machine from it.
        (function () {
          var held = document.getElementById("scripts");
          function start() {
            if (!held) return;
            var scripts = held.content.querySelectorAll("script"), last = null, texts = [];
            held = null;
            scripts.forEach(function (script) {
              if (!script.src) { texts.push(script.textContent); return; }
              last = document.createElement("script");
              last.src = script.src;
              last.async = false;
              document.body.append(last);
            });
            last.onload = function () {
              texts.forEach(function (text) {
                var script = document.createElement("script");
                script.text = text;
                document.body.append(script);
              });
            };
          }
          requestAnimationFrame(function () { setTimeout(start); });
          setTimeout(start, 1000);  // a page in the background is not painted
        })();
      </script>
    </footer>
  </body>
</html>"""
_PLACE = "<!--first view-->"
# In the page itself: the first view is drawn without waiting for another answer.
_DRAW = "".join(
    (resources.files("dashboards") / "assets" / name).read_text(encoding="utf-8")
    for name in ("chart_axes.js", "chart.js")
)


class _Pages(Dash):
    """Dash, with the first view in the page it sends."""

    first_view: FirstView

    def interpolate_index(self, **parts: Any) -> str:  # type: ignore[override]
        search = request.query_string.decode("utf-8", "replace")
        shown = self.first_view.html(request.path, f"?{search}" if search else "")
        index = str(super().interpolate_index(**parts))  # type: ignore[no-untyped-call]
        return index.replace(_PLACE, f"{shown}<script>{_DRAW}</script>", 1)


def create_app(deps: Deps, first_view_wait_s: float = WAIT_S) -> Dash:
    """Make the pages; mount `create_app(deps).server` (WSGI) at `/`."""
    app = _Pages(
        __name__,
        title="tokenweir",
        update_title="",
        serve_locally=True,
        suppress_callback_exceptions=True,
        assets_folder=str(resources.files("dashboards") / "assets"),
        assets_ignore=r"^chart(_axes)?\.js$",
        index_string=_INDEX,
        on_error=_report,
        add_log_handler=False,
        meta_tags=[{"name": "viewport", "content": "width=device-width, initial-scale=1"}],
    )
    # Every address of a stylesheet or script changes with the file.
    app.server.config["SEND_FILE_MAX_AGE_DEFAULT"] = timedelta(hours=1)
    app.layout = shell.layout()
    reader = Reader(deps, Memo(deps.clock))
    shell.register(app, reader)
    pages = {
        "/": overview,
        "/slo": slo,
        "/cost": cost,
        "/traces": traces,
        "/ingest": ingest,
    }
    for page in pages.values():
        page.register(app, reader)
    app.first_view = FirstView(reader, pages, first_view_wait_s)

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
