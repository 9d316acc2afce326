"""Cost as an SLO: what a unit of work may cost, with a budget of dollars."""
