"""Is that many bad requests more than bad luck? Pure, over arrays.

A tier fires on what a healthy service would hardly ever show. Healthy is one that spends half its
budget; its requests fail independently. At least `bad` of `total` of them fail with probability at
most exp(-evidence), the Chernoff bound of the binomial, which is exact for a run without a good
request. A window is looked at once for each request, so evidence is enough when fewer than
`FALSE_PAGES` such windows are expected in 30 days of the group's own traffic.

Where requests weigh differently (tokens, dollars, several verdicts on one request), a few heavy
ones may be half of a window. With w the heaviest request, W the weight of all and B that of the bad
ones, at least B is bad with probability at most exp(-(W / w) KL(B / W || healthy)): a request of
weight a <= w adds at most K(at) to the log of the moment generating function, K that of one that
fails or not, and K(at) <= (a / w) K(wt) since K is convex and K(0) = 0; the rest is Chernoff's own
proof. It also holds where a part of a request is bad, whose function lies below that of all or
nothing, and where heavy requests fail more often than light ones: healthy is then the mean by
weight, as the logarithm is concave. So weights speak as W / w requests of equal weight would.

That is little where one request is most of a window. With S the sum of squared weights, p the
healthy share and d = B - p W, the chance is also at most exp(-d^2 ln((1 - p) / p) / ((1 - 2 p) S)):
about its mean, the logarithm of the moment generating function of a request of weight a is at most
(at)^2 (1 - 2 p) / (4 ln((1 - p) / p)) (M. Kearns and L. Saul, UAI 1998), as long as heavy requests
fail no more often than light ones. So uneven weights speak as W^2 / S requests would, which is at
least W / w. The better bound is taken.

How often one looks, how many are few and what a run of failures says go by requests.

Few requests are counted in events and not in minutes: the short window of a sparse group reaches
back to its newest `FEW` requests, and a run of failures speaks whatever the windows hold.

Every number may be an array with one entry per group or per instant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import numpy.typing as npt

from slo.budget import allowance

HEALTHY = 0.5
"""Share of its budget that a healthy service spends."""
FALSE_PAGES = 0.05
"""Expected per tier and 30 days of a healthy group, at most."""
FEW = 5
"""A window with fewer requests does not say how things are now."""
SPARSE_PER_HOUR = 150
"""A group with more requests is judged by minutes alone: a dozen fall in five minutes. There
the newest requests known are the ones that failed fast, while the good ones are still answered."""
RUN_REACH = timedelta(days=3)
"""A run of failures is counted that far back, within the SLO's window."""

_COUNTED = timedelta(days=30)
_HOUR = timedelta(hours=1)

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Tally:
    """Judged requests of one window, for each group or instant; `total` is good + bad.

    Where requests are weighed, both are weights, and `behind` says what they are made of.
    """

    bad: Ints
    total: Ints
    behind: Behind | None = None

    @property
    def requests(self) -> Ints:
        return self.total if self.behind is None else self.behind.requests

    @property
    def bad_requests(self) -> Ints:
        return self.bad if self.behind is None else self.behind.bad_requests


@dataclass(frozen=True, slots=True)
class Behind:
    """The requests behind weights, for each group or instant.

    `heaviest` is the weight of the heaviest one, `squares` the sum of the squares of all weights.
    """

    requests: Ints
    bad_requests: Ints
    heaviest: Ints
    squares: Floats


def told_by(tally: Tally, objective: float) -> Floats:
    """Say in nats how little a healthy service explains a window."""
    if tally.behind is None:
        return evidence(tally.bad, tally.total, objective)
    heaviest = np.maximum(tally.behind.heaviest, 1).astype(np.float64)
    bad, total = tally.bad / heaviest, tally.total / heaviest
    squares = tally.behind.squares / heaviest / heaviest
    return np.maximum(
        evidence(bad, total, objective), _told_by_squares(bad, total, squares, objective)
    )


def _told_by_squares(bad: Floats, total: Floats, squares: Floats, objective: float) -> Floats:
    """Bound by the sum of squares; 0 where all weigh the same: the other bound is exact there."""
    healthy = HEALTHY * allowance(objective)
    surplus = np.maximum(bad - healthy * total, 0)
    spread = (1 - 2 * healthy) / np.log((1 - healthy) / healthy)
    is_uneven = (squares > 0) & (squares < total * (1 - 1e-9))
    told = surplus**2 / (spread * np.where(is_uneven, squares, 1))
    return np.asarray(np.where(is_uneven, told, 0), np.float64)


def evidence(bad: Ints | Floats, total: Ints | Floats, objective: float) -> Floats:
    """Say in nats how little a healthy service explains so many bad requests; 0: easily."""
    healthy = HEALTHY * allowance(objective)
    share = bad / np.maximum(total, 1)
    surplus = np.clip(share, healthy, 1)
    rest = 1 - surplus
    lost = np.log(np.where(rest > 0, rest, 1) / (1 - healthy))
    return np.asarray(total * (surplus * np.log(surplus / healthy) + rest * lost), np.float64)


def needed(per_hour: Floats) -> Floats:
    """Say how much evidence a group with that traffic needs: the more looks, the more of it."""
    looks = np.maximum(per_hour * (_COUNTED / _HOUR), 1)
    return np.asarray(np.log(looks / FALSE_PAGES), np.float64)


def requests_per_hour(windows: Mapping[timedelta, Tally], least: timedelta) -> Floats:
    """Return the group's busiest rate over any window of at least that length.

    A service that fell silent is not a quiet one: its longer windows remember the traffic.
    """
    rates = [windows[length].requests / (length / _HOUR) for length in windows if length >= least]
    return np.asarray(np.maximum.reduce(rates), np.float64)


def newest(
    windows: Mapping[timedelta, Tally],
    short: timedelta,
    long: timedelta,
    sparse: Flags,
    heard: Mapping[timedelta, float | Floats],
) -> tuple[Tally, Floats]:
    """Count what says how things are now, and say which share of it was heard.

    That is the short window or, for a sparse group, the first longer one that holds `FEW`
    requests, at most the long one.
    """
    lengths = sorted(length for length in windows if short <= length <= long)
    found = windows[lengths[-1]]
    bad, total = found.bad, found.total
    known = np.full(total.shape, heard.get(lengths[-1], 1.0))
    for length in reversed(lengths[:-1]):
        tally = windows[length]
        enough = tally.requests >= FEW
        taken = enough if length > short else enough | ~sparse
        bad, total = np.where(taken, tally.bad, bad), np.where(taken, tally.total, total)
        known = np.where(taken, heard.get(length, 1.0), known)
    return Tally(bad, total), known
