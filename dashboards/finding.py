"""A field that searches a table: what is typed goes into the address, and the page follows it."""

from __future__ import annotations

from typing import Any

from dash import ClientsideFunction, Dash, Input, Output, State


def find_on_enter(app: Dash, field: str) -> None:
    """Let Enter in a text field set the address's `find`."""
    in_browser: Any = app.clientside_callback
    in_browser(
        ClientsideFunction("tokenweir", "findGroup"),
        Output("url", "search", allow_duplicate=True),
        Input(field, "n_submit"),
        State(field, "value"),
        State("url", "search"),
        prevent_initial_call=True,
    )
