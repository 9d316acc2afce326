"""SLOs whose events come from a Prometheus-compatible server, counted from its samples."""
