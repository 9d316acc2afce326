/* Formats and cells of the tables. Unknown is a dash, never a zero. */
(function () {
  "use strict";
  const DASH = "–";
  const known = (v) => v !== null && v !== undefined;

  /* As dashboards/wording.py writes them. */
  const three = (v) => String(Number(v.toPrecision(3)));
  const whole = (v) => Math.round(v).toLocaleString("en-US");

  function dollars(v) {
    if (!known(v)) return DASH;
    const size = Math.abs(v);
    if (size === 0) return "$0";
    if (size >= 1000) return "$" + whole(v);
    if (size >= 1) return "$" + v.toFixed(2);
    if (size >= 0.01) return "$" + v.toFixed(3);
    if (size >= 1e-4) return "$" + Number(v.toPrecision(2));
    return "$" + v.toExponential(1).replace(/-(\d)$/, "-0$1");
  }

  function count(v) {
    if (!known(v)) return DASH;
    for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
      if (Math.abs(v) >= size * 0.99995) {
        return (Math.abs(v) < size * 999.5 ? three(v / size) : whole(v / size)) + unit;
      }
    }
    return Number.isInteger(v) ? String(v) : three(v);
  }

  function millis(v) {
    if (!known(v)) return DASH;
    if (v < 1) return Math.round(v * 1000) + " µs";
    if (v < 1000) return (v < 100 ? three(v) : v.toFixed(0)) + " ms";
    if (v < 100000) return three(v / 1000) + " s";
    let left = Math.floor(v / 1000);
    const parts = [];
    for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]]) {
      if (left >= size) parts.push(Math.floor(left / size) + unit);
      left %= size;
    }
    return parts.slice(0, 2).join(" ");
  }

  function text(v) {
    return known(v) && v !== "" ? v : "unknown";
  }

  function clock(v) {
    return known(v) ? v.slice(5, 10) + " " + v.slice(11, 23) : "";
  }

  window.dashAgGridFunctions = Object.assign(window.dashAgGridFunctions || {}, {
    dollars: dollars,
    count: count,
    millis: millis,
    text: text,
    clock: clock,
    /* Idle, overhead and unpriced rows are named in the first column of the bill. */
    groupName(params, name, isFirst) {
      if (params.data.kind === "used") return text(params.data[name]);
      return params.data[name] || (isFirst ? params.data.kind : "");
    },
    hours: (v) => (known(v) ? v.toFixed(v < 10 ? 2 : 1) + " h" : DASH),
    percent: (v) => (known(v) ? (v * 100).toFixed(1) + " %" : DASH),
  });

  const h = (...all) => window.React.createElement(...all);
  window.dashAgGridComponentFunctions = Object.assign(window.dashAgGridComponentFunctions || {}, {
    Started(props) {
      if (!props.data) return h("span", { className: "cell-wait" });
      const values = new URLSearchParams(window.location.search);
      values.set("trace", props.data.trace_id);
      return h("a", { href: "?" + values.toString(), onClick: (e) => {
        if (!e.ctrlKey && !e.metaKey && !e.shiftKey) e.preventDefault();
      } }, clock(props.value));
    },

    Outcome(props) {
      if (!props.data) return null;
      const reason = props.data.outcome_reason;
      return h("span", { className: "outcome outcome-" + props.value },
        h("i", null), reason && reason !== "ok" ? reason.replaceAll("_", " ") : props.value);
    },

    /* A bar behind the number: its share of the whole. */
    Share(props) {
      const share = props.data && props.data.share;
      return h("span", { className: "share" },
        known(share) && h("i", { style: { width: Math.max(0, share * 100) + "%" },
          className: "share-" + props.data.kind }),
        h("b", null, dollars(props.value)));
    },
  });
})();
