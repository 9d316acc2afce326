/* The frame's behaviour: the address bar is the state, everything else shows it. */
(function () {
  "use strict";
  const no = () => window.dash_clientside.no_update;
  const DEFAULT_RANGE = "24h";

  function changed(search, changes) {
    const values = new URLSearchParams(search || "");
    for (const [name, value] of Object.entries(changes)) {
      if (value) values.set(name, value);
      else values.delete(name);
    }
    const text = values.toString().replaceAll("%2C", ",").replaceAll("%2F", "/")
      .replaceAll("%3A", ":");
    return text ? "?" + text : "";
  }

  function triggered() {
    return window.dash_clientside.callback_context.triggered.map((t) => t.prop_id);
  }

  /* A control that already shows what the address says must not write it again: each write is a
     step in the browser's history. */
  function keep(search, next) {
    return next === (search || "") ? no() : next;
  }

  /* A chart asks for the time range that was dragged across it; without one, for the default. */
  document.addEventListener("chart:range", (event) => {
    const range = { from: null, to: null };
    if (event.detail) {
      const size = 10000;
      const written = (ms) => new Date(ms).toISOString().replace(".000Z", "Z");
      range.from = written(Math.floor(event.detail.from / size) * size);
      range.to = written(Math.ceil(event.detail.to / size) * size);
    }
    const search = changed(window.location.search, range);
    if (search === window.location.search) return;
    if (isLive()) window.dash_clientside.set_props("url", { search: search });
    else window.location.search = search;
  });

  /* The live page takes the place of the first view in one step, once it shows all of its own. */
  const isLive = () => !document.getElementById("first-view");

  function isFilled(root) {
    const page = root.querySelector("#page");
    if (root.querySelector("#problem .notice")) return true;
    if (!page || !page.firstChild || page.querySelector(".waiting")) return false;
    if (!root.querySelector("#fresh") || root.querySelector("#fresh.pending")) return false;
    const values = new URLSearchParams(window.location.search);
    if (values.get("tenant") && !root.querySelector("#tenant").value) return false;
    if ([...page.querySelectorAll(".chart")].some((chart) => !chart.firstChild)) return false;
    if (values.get("trace") && page.querySelector("#trace-list")) {
      return Boolean(page.querySelector("#trace-list[hidden] + #trace-view > *"));
    }
    return [...page.querySelectorAll(".grid")].every((grid) =>
      !grid.querySelector(".cell-wait") &&
      grid.querySelector(".ag-row, .ag-overlay-no-rows-center, .ag-overlay:not(.ag-hidden)"));
  }

  function takeOver() {
    const root = document.getElementById("react-entry-point");
    let asked = 0;
    const watching = new MutationObserver(() => {
      asked = asked || window.requestAnimationFrame(() => {
        asked = 0;
        if (isLive() || !isFilled(root)) return;
        watching.disconnect();
        document.getElementById("first-view").remove();
      });
    });
    watching.observe(root, { subtree: true, childList: true, attributes: true });
  }
  if (!isLive()) takeOver();

  const seen = {};

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    tokenweir: {
      bind(search, range, tenant) {
        const values = new URLSearchParams(search || "");
        const ids = triggered();
        const byControl = ids.length > 0 && !ids.some((id) => id === "url.search");
        if (byControl) {
          const changes = { tenant: tenant };
          if (ids.includes("range.value")) {
            changes.range = range === DEFAULT_RANGE ? null : range;
            changes.from = changes.to = null;
          }
          return [keep(search, changed(search, changes)), no(), no()];
        }
        const fixed = values.get("from") || values.get("to");
        return [no(), fixed ? "" : values.get("range") || DEFAULT_RANGE, values.get("tenant")];
      },

      navigate(pathname, search) {
        const values = new URLSearchParams(search || "");
        const kept = new URLSearchParams();
        for (const name of ["range", "from", "to", "tenant"]) {
          if (values.get(name)) kept.set(name, values.get(name));
        }
        const text = kept.toString() ? "?" + kept.toString() : "";
        const paths = ["/", "/slo", "/cost", "/traces", "/ingest"];
        return [
          ...paths.map((p) => "nav-link" + (p === (pathname || "/") ? " active" : "")),
          ...paths.map((p) => p + text),
        ];
      },

      freshness(_second, loaded, search) {
        if (!loaded) return ["loading", "fresh pending"];
        const fixed = new URLSearchParams(search || "").get("to");
        // Age is measured by this clock alone: the server's may be off.
        if (seen.loaded !== loaded) Object.assign(seen, { loaded: loaded, at: Date.now() });
        const age = Math.round((Date.now() - seen.at) / 1000);
        if (fixed) return ["fixed range", "fresh fixed"];
        if (age < 20) return ["live", "fresh live"];
        const text = age < 120 ? age + " s" : Math.round(age / 60) + " min";
        return ["stale, " + text + " old", "fresh stale"];
      },

      /* Filters of the requests list, written to the address. */
      filter(outcome, route, model, search) {
        return keep(
          search,
          changed(search, {
            outcome: outcome === "all" ? null : outcome,
            route: route,
            model: model,
          })
        );
      },

      find(_submits, text, search) {
        const id = (text || "").trim().toLowerCase();
        return id ? changed(search, { trace: id, span: null }) : no();
      },

      findGroup(_submits, text, search) {
        return keep(search, changed(search, { find: (text || "").trim(), page: null }));
      },

      openRow(cell, search) {
        if (!cell || !cell.rowId) return no();
        return changed(search, { trace: cell.rowId.split(":")[0], span: null });
      },

      closeSpan(isOpen, search) {
        return isOpen ? no() : keep(search, changed(search, { span: null }));
      },

      by(chosen, search) {
        const text = (chosen || []).join(",");
        return keep(search, changed(search, { by: text === "tenant,route" ? null : text }));
      },

      /* The list is fetched in blocks; when the filters change all of them are wrong. */
      purge(search) {
        const values = new URLSearchParams(search || "");
        for (const name of ["trace", "span"]) values.delete(name);
        const key = values.toString();
        if (window.tokenweirListed !== undefined && window.tokenweirListed !== key) {
          const api = window.dash_ag_grid && window.dash_ag_grid.getApi("requests");
          if (api) api.purgeInfiniteCache();
        }
        window.tokenweirListed = key;
        return no();
      },

      refresh(_clicks) {
        const api = window.dash_ag_grid && window.dash_ag_grid.getApi("requests");
        if (api) api.purgeInfiniteCache();
        return no();
      },
    },
  });
})();
