"""The goodput figures of benchmark tools, on the requests that an SLO judges."""
