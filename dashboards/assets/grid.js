/* Formats and cells of the tables. Unknown is a dash, never a zero. */
(function () {
  "use strict";
  const DASH = "–";
  const known = (v) => v !== null && v !== undefined;

  function dollars(v) {
    if (!known(v)) return DASH;
    const size = Math.abs(v);
    if (size === 0) return "$0";
    if (size >= 1000) return "$" + Math.round(v).toLocaleString("en-US");
    if (size >= 1) return "$" + v.toFixed(2);
    if (size >= 0.01) return "$" + v.toFixed(3);
    return size >= 1e-4 ? "$" + v.toPrecision(2) : "$" + v.toExponential(1);
  }

  function count(v) {
    if (!known(v)) return DASH;
    for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
      if (Math.abs(v) >= size) return Number((v / size).toPrecision(3)) + unit;
    }
    return String(Math.round(v * 100) / 100);
  }

  function millis(v) {
    if (!known(v)) return DASH;
    if (v < 1) return Math.round(v * 1000) + " µs";
    if (v < 1000) return Number(v.toPrecision(v < 100 ? 3 : 4)).toFixed(v < 100 ? 1 : 0) + " ms";
    return Number((v / 1000).toPrecision(3)) + " s";
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
