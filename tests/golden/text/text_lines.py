"""Reads and writes texts one per line: category, tab, the text with everything invisible escaped.

Escapes are \\\\, \\n, \\r, \\t and \\u{HEX}; the last stands for controls, formats, unassigned and private code points,
spaces other than U+0020, and combining marks of the Latin script.
"""
import re
import unicodedata

NAMED = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
INVISIBLE = {"Cc", "Cf", "Cn", "Co", "Zs", "Zl", "Zp"}


def escape(text):
    def one(c):
        if c in NAMED:
            return NAMED[c]
        if c != " " and (unicodedata.category(c) in INVISIBLE or 0x300 <= ord(c) <= 0x36F):
            return f"\\u{{{ord(c):X}}}"
        return c

    return "".join(map(one, text))


def unescape(text):
    named = {escaped: c for c, escaped in NAMED.items()}
    return re.sub(r"\\u\{([0-9A-F]+)\}|\\.", lambda m: chr(int(m[1], 16)) if m[1] else named[m[0]], text)


def read_lines(path):
    """[(category, text)]; lines that begin with # are about the file."""
    with open(path, encoding="utf-8", newline="\n") as file:
        rows = (line.rstrip("\n").split("\t", 1) for line in file if not line.startswith("#"))
        return [(category, unescape(text)) for category, text in rows]


def write_lines(path, about, lines):
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"# {line}\n" for line in about)
        file.writelines(f"{category}\t{escape(text)}\n" for category, text in lines)
