"""Stands before SQLAlchemy on the path of what tests start.

Parsl imports it wherever it is, for a monitoring that Steersman does not use: more than half of the processor time of
its import, in each of a campaign's nine processes. Optuna brings it here; a user's environment mostly lacks it.
"""

raise ImportError("nothing here uses it")
