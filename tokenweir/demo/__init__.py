"""The demonstration: the whole loop on one machine, with nothing scripted on our side."""
