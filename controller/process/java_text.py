"""Text that Java reads as it was meant: values of its properties files, and the locale by which it decodes paths.

Java takes a `.properties` file for ISO-8859-1 with backslash escapes, whatever the locale; of its arguments and of file
names, it decodes what the locale allows.
"""

from __future__ import annotations

import locale
import struct

UTF8_LOCALE = "C.UTF-8"
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", "\r": r"\r"})


def property_value(text: str) -> str:
    """The text as a value in a properties file, in ASCII."""
    escaped = "".join(c if c.isascii() else _escape(c) for c in text.translate(_ESCAPES))
    return f"\\{escaped}" if escaped[:1].isspace() else escaped


def utf8_locale() -> dict[str, str]:
    """What a JVM's environment needs besides this process's, so that it can open any path; nothing in a UTF-8 locale.

    Python itself reads and writes paths as UTF-8 in the locale C, too.
    """
    in_force = locale.nl_langinfo(locale.CODESET).replace("-", "").lower()
    return {} if in_force == "utf8" else {"LC_ALL": UTF8_LOCALE}


def _escape(char: str) -> str:
    """Its UTF-16 units: two beyond the first 65,536 characters. Those that stand for undecodable bytes are one."""
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{unit:04x}" for unit in struct.unpack(f">{len(units) // 2}H", units))
