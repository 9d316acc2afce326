"""Whose data an API call may see: everybody's, or one tenant's.

The application puts the tenant of the caller's key on each request. A caller who is bound to one is
let in where an endpoint takes `OwnTenant`, and so answers for that tenant alone, and nowhere else:
an endpoint that does not think of tenants is closed to them.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, HTTPException, Request
from fastapi.routing import APIRoute


def bind_to(request: Request, tenant: str | None) -> None:
    """Say whose data this request may see; None: everybody's."""
    request.state.own_tenant = tenant


def own_tenant(request: Request) -> str | None:
    """Return the one tenant that the caller may see, None if there is no such limit."""
    tenant: str | None = getattr(request.state, "own_tenant", None)
    return tenant


OwnTenant = Annotated[str | None, Depends(own_tenant)]


def refuse_other_endpoints(request: Request) -> None:
    """Close every endpoint that does not take `OwnTenant` to callers bound to a tenant."""
    tenant = own_tenant(request)
    if tenant is not None and not answers_for_one_tenant(request.scope.get("route")):
        raise HTTPException(
            403, f"a key of tenant {tenant!r} may not read this: it is not about one tenant alone"
        )


def answers_for_one_tenant(route: object) -> bool:
    return isinstance(route, APIRoute) and any(
        each.call is own_tenant for each in route.dependant.dependencies
    )


def narrowed(asked: str | None, own: str | None) -> str | None:
    """Return the tenant to filter by; asking for another than one's own is refused."""
    if own is None:
        return asked
    if asked and asked != own:
        raise HTTPException(403, f"this key reads tenant {own!r}, not {asked!r}")
    return own
