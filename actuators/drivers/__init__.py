"""One file per kind of target. Each implements `actuators.enact.Driver`."""
