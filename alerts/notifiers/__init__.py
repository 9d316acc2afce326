"""One file per receiver's dialect. Each renders and classifies; none does I/O."""
