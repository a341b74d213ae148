"""Count words of the project's old dialect: ``python tools/plain_english.py`` by room, ``… PATH`` one by one.

CONTRIBUTING.md has the glossary: what each of these should say instead. Reads comments, docstrings and other texts of
Python files, and Markdown outside of code blocks. Standard library only.
"""

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACES = ("paimon_pyds", "README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "SECURITY.md", "docs")
DIALECT = {
    "tell": r"\b(?:tells?|told)\b(?! (?:you|users|readers|people)\b)",
    "ask": r"\b(?:asks?|asked)\b(?! (?:you|users|for confirmation)\b)",
    "who": r"\b[Ww]ho (?!is\b|are\b|may write\b)\w+",
    "so many": r"\b[Ss]o (?:many|few|much)\b",
    "none of": r"\bnone of\b|\b(?:is|are|be) none\b",
    "beside": r"\bbeside\b",
    "of then": r"\bof then\b|\bof those of\b",
    "lie": r"\b(?:lie|lies|lay|lain)\b",
    "kept": r"\bkept\b",
    "what": r"(?:^|[.:;(] )What (?:is|are|was|were|has|have|had|does|can|must|may|follows|goes|comes|needs|of|becomes"
    r"|stays)\b"
    r"|\bwhat (?:of|is|are|was|were) (?:left|taken|asked|kept|there|them|it)\b",
}
PATTERNS = {word: re.compile(pattern, re.MULTILINE) for word, pattern in DIALECT.items()}
_CODE_BLOCK = re.compile(r"^(?:```|~~~).*?^(?:```|~~~)[^\n]*$", re.MULTILINE | re.DOTALL)


def python_texts(source):
    """(line, text) of comments and strings. Strings without a blank are names, not sentences."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def markdown_texts(source):
    """(line, text) of the lines outside of code blocks."""
    blank = _CODE_BLOCK.sub(lambda block: "\n" * block[0].count("\n"), source)
    yield from enumerate(blank.splitlines(), 1)


def texts(path):
    """(line, text) of a file's sentences."""
    source = path.read_text(encoding="utf-8")
    return python_texts(source) if path.suffix == ".py" else markdown_texts(source)


def files(place):
    """The files below a place that have sentences."""
    return [place] if place.is_file() else sorted(p for p in place.rglob("*") if p.suffix in (".py", ".md"))


def hits(path):
    """(line, word, excerpt) of each word of the dialect in a file."""
    for line, text in texts(path):
        for word, pattern in PATTERNS.items():
            for found in pattern.finditer(text):
                start = max(0, found.start() - 30)
                yield line + text.count("\n", 0, found.start()), word, " ".join(text[start : found.end() + 30].split())


def count():
    """How often each room has each word: {(room, word): count}."""
    counts = Counter()
    for place in PLACES:
        for path in files(ROOT / place):
            parts = path.relative_to(ROOT).parts
            room = "/".join(parts[:2]) if parts[0] == "paimon_pyds" else parts[0]
            counts.update((room, word) for _, word, _ in hits(path))
    return counts


def main(arguments):
    if arguments:
        for place in arguments:
            for path in files(Path(place)):
                for line, word, excerpt in hits(path):
                    print(f"{path}:{line}: {word}: {excerpt}")
        return
    counts = count()
    rooms = Counter()
    for (room, _), n in counts.items():
        rooms[room] += n
    for room, n in rooms.most_common():
        words = ", ".join(f"{word} {counts[room, word]}" for word in DIALECT if counts[room, word])
        print(f"{n:5} {room}: {words}")
    print(f"{sum(counts.values()):5} in all")


if __name__ == "__main__":
    main(sys.argv[1:])
