"""How long tests wait for what must come: a condition ends each wait, so patience costs nothing where it is quick."""

PATIENCE = 120.0
"""Seconds. No claim about speed: a machine that is busy with other things takes many times as long as an idle one."""
