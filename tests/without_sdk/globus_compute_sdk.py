"""Stands before the installed SDK on the path of what tests start.

Parsl imports the SDK wherever it is, 0.2 s of processor time in each of a campaign's nine processes.
"""

raise ImportError("only the tests of Globus Compute use it")
