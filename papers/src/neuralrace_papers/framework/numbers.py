"""Numbers as people write them."""

from __future__ import annotations

from math import floor, isfinite, isnan, log10

SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def shown(value: float, error: float | None = None, runs: int = 1) -> str:
    """A number with its standard error, with as many digits as mean something.

    >>> shown(0.40312), shown(0.40312, 0.012, 5), shown(12345.6), shown(7.07e-10), shown(3.0), shown(0.0)
    ('0.403', '0.403 ± 0.012 (5 runs)', '12,346', '7.1 × 10⁻¹⁰', '3', '0')
    >>> shown(float("inf")), shown(float("nan"))
    ('infinite', 'not a number')
    """
    if not isfinite(value):
        return "not a number" if isnan(value) else "infinite"
    many = f" ({runs} runs)" if runs > 1 else ""
    if not error or not isfinite(error) or _power(value) < -4:
        return _plain(value, 3 if _power(value) >= -4 else 2) + many
    places = max(0, 1 - _power(error))
    if places > 6:
        return _plain(value, 4) + many
    return f"{value:,.{places}f} ± {error:.{places}f}{many}"


def _power(value: float) -> int:
    return floor(log10(abs(value))) if value else 0


def _plain(value: float, digits: int) -> str:
    """A number with a few significant digits; powers of ten where it is very small or very large."""
    power = _power(value)
    if -4 <= power < 7:
        text = f"{value:,.{max(0, digits - 1 - power)}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    head = f"{value / 10.0**power:.{digits - 1}f}".rstrip("0").rstrip(".")
    return f"{head} × 10{str(power).translate(SUPERSCRIPT)}"
