"""Alembic's revision scripts of the control database. Run by `base.migrate`, never imported."""
