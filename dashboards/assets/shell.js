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
    const text = values.toString().replaceAll("%2C", ",").replaceAll("%2F", "/");
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
        const paths = ["/", "/cost", "/traces"];
        return [
          ...paths.map((p) => "nav-link" + (p === (pathname || "/") ? " active" : "")),
          ...paths.map((p) => p + text),
        ];
      },

      freshness(_second, loaded, search) {
        if (!loaded) return ["loading", "fresh waiting"];
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
