"""A measured number -> what is printed of it."""


def rounded(value: float) -> float:
    """Three figures."""
    return float(f"{value:.3g}")
