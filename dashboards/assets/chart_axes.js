/* Words for numbers and times, and where the ticks of a chart's axes are: what chart.js writes. */
window.tokenweirAxes = (function () {
  "use strict";
  const SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
  const TIME_STEPS = [
    SECOND, 2 * SECOND, 5 * SECOND, 10 * SECOND, 30 * SECOND,
    MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE,
    HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR,
    DAY, 2 * DAY, 4 * DAY, 7 * DAY, 14 * DAY, 28 * DAY, 91 * DAY, 364 * DAY,
  ];
  const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");

  /* Words for numbers and times. */

  const plain = (v) => String(Number(v.toPrecision(3)));

  function short(v) {
    for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
      if (Math.abs(v) >= size) return plain(v / size) + unit;
    }
    return plain(v);
  }

  const WORDS = {
    rate: (v) => (v !== 0 && Math.abs(v) < 0.1 ? plain(v * 60) + "/min" : short(v) + "/s"),
    ms: (v) => (Math.abs(v) < 1000 ? plain(v) + " ms" : short(v / 1000) + " s"),
    dollars: (v) => (v < 0 ? "−$" : "$") + (Math.abs(v) < 1000 && Math.abs(v) >= 1
      ? Math.abs(v).toFixed(2).replace(/\.00$/, "") : short(Math.abs(v))),
    percent: (v) => plain(v).replace("-", "−") + " %",
  };

  const ZERO = { dollars: "$0", percent: "0 %" };

  const two = (n) => String(n).padStart(2, "0");
  const day = (t) => new Date(t).getUTCDate() + " " + MONTHS[new Date(t).getUTCMonth()];

  function hour(t, step) {
    const d = new Date(t);
    const text = two(d.getUTCHours()) + ":" + two(d.getUTCMinutes());
    return step < MINUTE ? text + ":" + two(d.getUTCSeconds()) : text;
  }

  /* Axes. */

  function timeTicks(start, end, width) {
    const most = Math.max(2, width / 88);
    const step = TIME_STEPS.find((s) => (end - start) / s <= most) || TIME_STEPS.at(-1);
    const out = [];
    let shown = null;
    for (let t = Math.ceil(start / step) * step; t <= end; t += step) {
      const date = day(t);
      if (step >= DAY) out.push({ at: t, text: date, below: "" });
      else out.push({ at: t, text: hour(t, step), below: date === shown ? "" : date });
      shown = date;
    }
    return out;
  }

  /* Steps of 1, 2 or 5 times a power of ten, about `most` of them. */
  function valueTicks(low, high, most) {
    const rough = (high - low || 1) / most;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((n) => n * power).find((s) => s >= rough * 0.999);
    const first = Math.floor(low / step + 1e-9), last = Math.ceil(high / step - 1e-9);
    return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
  }

  /* The axis ends at a tick, unless that would leave much of it empty. */
  function reach(ticks, low, high) {
    const spare = (ticks[1] - ticks[0]) / 2, pad = (high - low) * 0.04;
    return [
      low - ticks[0] > spare ? low - pad : ticks[0],
      ticks.at(-1) - high > spare ? high + pad : ticks.at(-1),
    ];
  }

  return { day, hour, timeTicks, valueTicks, reach, WORDS, ZERO, SECOND, MINUTE, HOUR };
})();
