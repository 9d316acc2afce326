/* Draws every element of class "chart" from the JSON in its data-chart attribute; what the JSON
   holds is written down in dashboards/figures.py. Colours are CSS variables, so light and dark
   need no redrawing. Dragging asks for a time range with the event "chart:range". */
(function () {
  "use strict";
  const SVG = "http://www.w3.org/2000/svg";
  const PAD = { left: 52, right: 14, top: 20, bottom: 38 }; // words of marks stand above the plot
  const { day, hour, timeTicks, valueTicks, reach, WORDS, ZERO, SECOND, MINUTE, HOUR } = window.tokenweirAxes;
  const STACKED = { area: true, bars: true };
  const charts = new WeakMap();

  /* Lower and upper edge of every series at every time; null is a gap. */
  function edges(spec) {
    const base = spec.at.map(() => 0);
    return spec.series.map((series) =>
      series.y.map((v, i) => {
        if (v === null) return null;
        if (!STACKED[series.kind]) return [0, v];
        base[i] += v;
        return [base[i] - v, base[i]];
      })
    );
  }

  /* A step that the range cuts to a sliver has a rate of next to nothing: it sets no axis. */
  function settled(spec, points) {
    const inside = (t) => Math.min(t + spec.step, spec.end) - Math.max(t, spec.start);
    const kept = (p, i) => p !== null && (!spec.step || inside(spec.at[i]) >= spec.step / 4);
    const found = points.flatMap((each) => each.filter(kept));
    return found.length ? found.flat() : points.flat().filter(Boolean).flat();
  }

  /* Drawing. */

  function node(name, attributes, parent, text) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.append(made);
    return made;
  }

  const round = (v) => Math.round(v * 10) / 10;

  /* Runs of indices without a gap. */
  function runs(points) {
    const out = [];
    points.forEach((point, i) => {
      if (point === null) return;
      if (i && points[i - 1] !== null) out.at(-1).push(i);
      else out.push([i]);
    });
    return out;
  }

  function shapes(series, points, x, y, spec, plot) {
    const colour = "--c:var(--" + series.colour + ")";
    const put = (cls, d) => d && node("path", { class: cls, d: d, style: colour }, plot);
    const at = (i, edge) => round(x(spec.at[i])) + " " + round(y(points[i][edge]));
    if (series.kind === "bars") {
      const bar = (p, i) => {
        if (p === null || p[0] === p[1]) return "";
        // The newest step has only begun: it has a pixel at least.
        const right = round(Math.min(x(spec.at[i] + spec.step), x(spec.end)));
        const left = Math.min(round(x(spec.at[i])), right - 1);
        return `M${left} ${round(y(p[0]))}V${round(Math.max(y(p[1]), PAD.top))}H${right}V${round(y(p[0]))}Z`;
      };
      put("chart-bars", points.map(bar).join(""));
      return;
    }
    const steps = (run, edge) => run.map((i, n) =>
      n ? `H${round(x(spec.at[i]))}V${round(y(points[i][edge]))}` : at(i, edge)).join("");
    const line = (run, edge) => run.map((i) => at(i, edge)).join("L");
    const path = series.kind === "step" ? steps : line;
    const found = runs(points);
    if (series.kind !== "line") {
      const under = (run) => series.kind === "step"
        ? `V${round(y(0))}H${round(x(spec.at[run[0]]))}Z`
        : "L" + line([...run].reverse(), 0) + "Z";
      put("chart-fill chart-fill-" + series.kind,
        found.filter((run) => run.length > 1).map((run) => "M" + path(run, 1) + under(run)).join(""));
    }
    put("chart-line chart-line-" + series.kind, found.map((run) => "M" + path(run, 1)).join(""));
    // A measurement between two gaps has no line; on lines every one has its dot.
    const dots = series.kind === "line" ? found.flat() : found.filter((r) => r.length === 1).flat();
    put("chart-dots", dots.map((i) => `M${at(i, 1)}h0`).join(""));
  }

  function axes(spec, x, y, ticks, times, size, svg) {
    const isBudget = spec.series.some((series) => series.kind === "step");
    for (const value of ticks) {
      const at = round(y(value));
      node("line", { class: value ? "chart-grid" : isBudget ? "chart-limit" : "chart-zero", x1: PAD.left, x2: size.right, y1: at, y2: at }, svg);
      node("text", { class: "chart-tick", x: PAD.left - 8, y: at + 4, "text-anchor": "end" }, svg, value ? WORDS[spec.unit](value) : ZERO[spec.unit] || "0");
    }
    node("line", { class: "chart-axis", x1: PAD.left, x2: size.right, y1: size.bottom, y2: size.bottom }, svg);
    for (const tick of times) {
      const at = round(x(tick.at));
      node("line", { class: "chart-axis", x1: at, x2: at, y1: size.bottom, y2: size.bottom + 4 }, svg);
      node("text", { class: "chart-tick", x: at, y: size.bottom + 17, "text-anchor": "middle" }, svg, tick.text);
      if (tick.below) {
        node("text", { class: "chart-tick", x: at, y: size.bottom + 31, "text-anchor": "middle" }, svg, tick.below);
      }
    }
  }

  /* Dashed: what is foreseen, and the area in which it lies. */
  function outlook(spec, x, y, plot) {
    if (!spec.outlook) return;
    const path = (points) => "M" + points.map(([t, v]) => `${round(x(t))} ${round(y(v))}`).join("L");
    node("path", { class: "chart-outlook-area", d: path(spec.outlook.area) + "Z" }, plot);
    if (spec.outlook.line.length) {
      node("path", { class: "chart-outlook", d: path(spec.outlook.line) }, plot);
    }
  }

  function marks(spec, x, size, svg) {
    let free = -Infinity;
    for (const mark of [...spec.marks].sort((a, b) => a.at - b.at)) {
      const at = round(x(mark.at));
      node("line", { class: "chart-mark chart-mark-" + mark.kind, x1: at, x2: at, y1: PAD.top - 12, y2: size.bottom }, svg);
      const room = mark.words.length * 6.2;
      if (!mark.words || at < free) continue;
      const isLate = at + room > size.right;
      if (isLate && at - room < free) continue;
      node("text", { class: "chart-words chart-words-" + mark.kind, x: at + (isLate ? -4 : 4), y: PAD.top - 6,
        "text-anchor": isLate ? "end" : "start" }, svg, mark.words);
      free = at + (isLate ? 0 : room) + 8;
    }
  }

  function summary(spec) {
    const range = `${day(spec.start)} ${hour(spec.start)} to ${day(spec.end)} ${hour(spec.end)} UTC`;
    const parts = spec.series.map((series) => {
      const known = series.y.filter((v) => v !== null);
      if (!known.length) return `${series.name}: no data`;
      const [low, high, last] = [Math.min(...known), Math.max(...known), known.at(-1)].map(WORDS[spec.unit]);
      return `${series.name}: ${low} to ${high}, last ${last}`;
    });
    return `${spec.title}, ${range}. ${parts.join("; ")}. ${spec.says}`.trim();
  }

  function draw(host) {
    const chart = charts.get(host);
    const width = host.clientWidth, height = host.clientHeight;
    if (!width || !height) return;
    const spec = JSON.parse(host.dataset.chart);
    Object.assign(chart, { width: width, height: height, text: host.dataset.chart, spec: spec, svg: null });
    host.replaceChildren();
    if (spec.empty) {
      const said = document.createElement("div");
      said.className = "chart-empty";
      said.textContent = spec.empty;
      host.append(said);
      return;
    }
    const size = { right: width - PAD.right, bottom: height - PAD.bottom };
    const points = edges(spec);
    const values = [...settled(spec, points), ...spec.guide.map((g) => g[1]), 0];
    const low = values.reduce((a, b) => Math.min(a, b)), high = values.reduce((a, b) => Math.max(a, b));
    const ticks = valueTicks(low, high === low ? low + 1 : high, Math.max(2, (size.bottom - PAD.top) / 32));
    const [bottom, top] = reach(ticks, low, high);
    const x = (t) => PAD.left + ((t - spec.start) / (spec.end - spec.start)) * (size.right - PAD.left);
    const y = (v) => size.bottom - ((v - bottom) / (top - bottom)) * (size.bottom - PAD.top);
    const svg = node("svg", { width: width, height: height, role: "img", tabindex: 0, "aria-label": summary(spec) }, host);
    for (const band of spec.bands) {
      const left = round(x(band.start));
      node("rect", { class: "chart-band chart-band-" + band.kind, x: left, y: PAD.top, height: size.bottom - PAD.top,
        width: Math.max(1, round(x(band.end) - left)) }, svg);
    }
    axes(spec, x, y, ticks.filter((v) => v >= bottom && v <= top), timeTicks(spec.start, spec.end, size.right - PAD.left), size, svg);
    // A picture in the picture cuts off what begins before the range.
    const plot = node("svg", { x: PAD.left, y: 0, width: size.right - PAD.left, height: height,
      viewBox: `${PAD.left} 0 ${size.right - PAD.left} ${height}` }, svg);
    if (spec.guide.length) {
      node("path", { class: "chart-guide", d: "M" + spec.guide.map(([t, v]) => `${round(x(t))} ${round(y(v))}`).join("L") }, plot);
    }
    outlook(spec, x, y, plot);
    spec.series.forEach((series, n) => shapes(series, points[n], x, y, spec, plot));
    marks(spec, x, size, svg);
    Object.assign(chart, { svg: svg, x: x, y: y, points: points, size: size,
      cursor: node("g", { class: "chart-cursor" }, svg) });
    chart.tip = document.createElement("div");
    chart.tip.className = "chart-tip";
    chart.tip.setAttribute("role", "status");
    chart.tip.hidden = true;
    host.append(chart.tip);
    if (chart.shown !== undefined) point(chart, chart.shown);
  }

  /* Pointing. */

  const timeAt = (chart, px) => {
    const { spec, size } = chart;
    const inside = Math.min(Math.max(px, PAD.left), size.right);
    return spec.start + ((inside - PAD.left) / (size.right - PAD.left)) * (spec.end - spec.start);
  };

  function nearest(chart, time) {
    const { at, step, start, end } = chart.spec;
    let best;
    at.forEach((t, i) => {
      const shown = t + step / 2;
      if (t + step < start || t > end) return;
      if (best === undefined || Math.abs(shown - time) < Math.abs(at[best] + step / 2 - time)) best = i;
    });
    return best;
  }

  /* What lies between a point and the next one, in words. */
  function meanwhile(spec, index) {
    const from = spec.at[index];
    const to = spec.step ? from + spec.step : spec.at[index + 1] || Math.max(from, spec.end);
    const said = [
      ...spec.bands.filter((b) => b.words && b.start < to && b.end > from).map((b) => b.words),
      ...spec.marks.filter((m) => m.kind === "edit" && m.at >= from && m.at < to)
        .map((m) => "document " + m.words),
    ];
    return said.length > 4 ? [...said.slice(0, 3), `and ${said.length - 3} more`] : said;
  }

  function point(chart, index) {
    const { spec, x, y, points, size, cursor, tip } = chart;
    cursor.replaceChildren();
    chart.shown = spec.at[index] === undefined ? undefined : index;
    tip.hidden = chart.shown === undefined;
    if (tip.hidden) return;
    const time = spec.at[index], middle = round(x(time + spec.step / 2));
    node("line", { class: "chart-cross", x1: middle, x2: middle, y1: PAD.top, y2: size.bottom }, cursor);
    const title = document.createElement("b");
    const close = spec.end - spec.start < 2 * HOUR ? SECOND : MINUTE;
    title.textContent = `${day(time)} ${hour(time, close)}`;
    const rows = spec.series.map((series, n) => {
      const colour = "var(--" + series.colour + ")";
      const edge = points[n][index];
      if (edge && series.kind !== "bars") {
        node("circle", { class: "chart-dot", cx: middle, cy: round(y(edge[1])), r: 3.5, style: "fill:" + colour }, cursor);
      }
      const row = document.createElement("div"), swatch = document.createElement("i");
      const name = document.createElement("span"), value = document.createElement("span");
      swatch.className = "swatch";
      swatch.style.background = colour;
      name.textContent = series.name;
      value.className = "num";
      value.textContent = edge ? WORDS[spec.unit](series.y[index]) : "–";
      row.append(swatch, name, value);
      return row;
    });
    const notes = meanwhile(spec, index).map((words) => {
      const note = document.createElement("p");
      note.textContent = words;
      return note;
    });
    tip.replaceChildren(title, ...rows.reverse(), ...notes);
    const isRight = middle > (PAD.left + size.right) / 2;
    tip.style.left = isRight ? "" : middle + 12 + "px";
    tip.style.right = isRight ? chart.width - middle + 12 + "px" : "";
  }

  const hide = (chart) => chart.svg && point(chart, -1);

  function select(chart, from, to) {
    if (chart.picked) chart.picked.remove();
    chart.picked = node("rect", { class: "chart-picked", x: Math.min(from, to), y: PAD.top,
      width: Math.abs(to - from), height: chart.size.bottom - PAD.top }, chart.svg);
  }

  function ask(host, detail) {
    host.dispatchEvent(new CustomEvent("chart:range", { bubbles: true, detail: detail }));
  }

  function listen(host, chart) {
    const px = (event) => event.clientX - host.getBoundingClientRect().left;
    const clamp = (at) => Math.min(Math.max(at, PAD.left), chart.size.right);
    let from = null;
    const end = () => {
      from = null;
      if (chart.picked) chart.picked.remove();
    };
    host.addEventListener("pointermove", (event) => {
      if (!chart.svg || chart.spec.empty) return;
      point(chart, nearest(chart, timeAt(chart, px(event))));
      if (from !== null) select(chart, from, clamp(px(event)));
    });
    host.addEventListener("pointerdown", (event) => {
      if (!chart.svg || chart.spec.empty || event.button) return;
      if (event.pointerType !== "mouse") {
        point(chart, nearest(chart, timeAt(chart, px(event))));
        return;
      }
      from = clamp(px(event));
      host.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    host.addEventListener("pointerup", (event) => {
      const to = from === null ? null : clamp(px(event));
      if (to !== null && Math.abs(to - from) > 6) {
        const [start, stop] = [from, to].sort((a, b) => a - b).map((at) => timeAt(chart, at));
        ask(host, { from: start, to: stop });
      }
      end();
    });
    host.addEventListener("pointercancel", end);
    host.addEventListener("pointerleave", () => hide(chart));
    host.addEventListener("focusout", () => hide(chart));
    host.addEventListener("dblclick", () => ask(host, null));
    host.addEventListener("keydown", (event) => {
      if (!chart.svg || chart.spec.empty) return;
      const last = nearest(chart, chart.spec.end);
      const move = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
      if (event.key === "Escape") hide(chart);
      if (move === undefined || last === undefined) return;
      const first = nearest(chart, chart.spec.start);
      const next = chart.shown === undefined ? last : chart.shown + move;
      point(chart, Math.min(Math.max(next, first), last));
      event.preventDefault();
    });
  }

  /* Finding charts, whoever puts them on the page. */

  const resized = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const chart = charts.get(target);
      if (chart.width !== target.clientWidth || chart.height !== target.clientHeight) draw(target);
    }
  });

  function adopt(host) {
    const known = charts.get(host);
    if (!known) {
      charts.set(host, {});
      listen(host, charts.get(host));
      resized.observe(host);
    }
    if (!known || known.text !== host.dataset.chart) draw(host);
  }

  function adoptIn(element) {
    if (element.matches(".chart")) adopt(element);
    element.querySelectorAll(".chart").forEach(adopt);
  }

  new MutationObserver((changes) => {
    for (const change of changes) {
      if (change.type === "attributes") adopt(change.target);
      else change.addedNodes.forEach((added) => added.nodeType === 1 && adoptIn(added));
    }
  }).observe(document.documentElement, {
    subtree: true, childList: true, attributes: true, attributeFilter: ["data-chart"],
  });
  adoptIn(document.documentElement);
})();
