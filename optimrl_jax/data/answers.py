"""Programs out of completions: where the reasoning ends, which code block is the answer, and when there is none.

Pure; between the sampled text and the sandbox. Code blocks are found by a Markdown parser (CommonMark), whose rules are
bent only where models break them: a fence behind words, words behind a closing fence, a block that is never closed
before the next one opens, and a fence inside a Python string. A draft of reasoning that did not end is never an answer.
"""

import functools
import re
import tokenize
import typing
from collections.abc import Iterator, Sequence

import markdown_it

THINKING, THOUGHT = "<think>", "</think>"
# Words behind an opening fence that name a language, as models write them.
TAGS = {
    "python": frozenset({"python", "py", "python3", "py3", "python2", "py2", "pypy", "pypy3"}),
    "cpp": frozenset({"cpp", "c++", "cc", "cxx", "c++17", "c++20", "cpp17", "cpp20"}),
    "c": frozenset({"c"}),
    "java": frozenset({"java"}),
}
MARKDOWN_TAGS = frozenset({"md", "markdown"})
FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})(?P<info>[^\n]*)$")
LANGUAGE = re.compile(r"[A-Za-z+#0-9]+")
# Times that a text is parsed again after a fence was taken apart from the words before it.
MAX_REPAIRS = 16
# Closing fences that are tried for a block whose string is still open there.
MAX_CLOSINGS = 64
# Tags of reasoning that are followed; a text with more of them is no answer.
MAX_TAGS = 64


class CodeBlock(typing.NamedTuple):
    """A block of code in a text.

    Attributes:
      tag: the first word after its opening fence, in lower case; empty where there is none.
      code: its lines, without the indentation of its fence.
      start: first line of the block in the text, that of its fence.
      end: the line after the block.
    """

    tag: str
    code: str
    start: int
    end: int


def program_of(completion: str, *, prompt: str | None = None, language: str = "python") -> str:
    """Extract the final program of a completion; empty where it has none.

    The reasoning is left out first: everything before the last `</think>` outside a code block, and everything between
    the tags. A completion that was cut while it was still thinking has no program, whatever drafts it wrote. Of the
    blocks after the reasoning, the last one tagged as `language` counts, else the last one without a tag, else the last
    one; empty blocks do not count. Where nothing is fenced, what remains is the program.

    Args:
      completion: the text as sampled, special tokens spelled out.
      prompt: what stood before it. Its end says whether the template has opened the reasoning already. Without it, a
        text that breaks off within a sentence after its last block has no program either: it may have been cut while
        thinking.
      language: key of `TAGS`.
    """
    text = completion.removeprefix("\ufeff").replace("\r\n", "\n")
    answer = _answer(text, is_thinking=prompt is not None and prompt.rstrip().endswith(THINKING))
    if answer is None:
        return ""
    blocks = code_blocks(answer)
    filled = [block for block in blocks if block.code.strip()]
    if not filled:
        return "" if blocks else answer
    if prompt is None and _breaks_off(answer, filled[-1]):
        return ""
    tagged = [block for block in filled if block.tag in TAGS[language]]
    untagged = [block for block in filled if not block.tag]
    return (tagged or untagged or filled)[-1].code


def _answer(text: str, *, is_thinking: bool) -> str | None:
    """Return what follows the reasoning; None where the reasoning did not end and no answer precedes it."""
    answer = ""
    for _ in range(MAX_TAGS):
        if is_thinking:
            _, end, text = text.partition(THOUGHT)
            if not end:
                return answer if code_blocks(answer) else None
            answer, is_thinking = "", False
        tag = _first_tag(text)
        if tag is None:
            return answer + text
        # A closing tag alone ends reasoning that the prompt has opened.
        if text.startswith(THINKING, tag):
            answer, text, is_thinking = answer + text[:tag], text[tag + len(THINKING) :], True
        else:
            answer, text = "", text[tag + len(THOUGHT) :]
    return None


def _first_tag(text: str) -> int | None:
    """Return where the first tag of reasoning outside code blocks begins."""
    if THINKING not in text and THOUGHT not in text:
        return None
    in_code = {line for block in code_blocks(text) for line in range(block.start, block.end)}
    position = 0
    for number, line in enumerate(text.splitlines(keepends=True)):
        places = [place for place in (line.find(THINKING), line.find(THOUGHT)) if place >= 0]
        if places and number not in in_code:
            return position + min(places)
        position += len(line)
    return None


def code_blocks(text: str, *, looks_inside: bool = True) -> list[CodeBlock]:
    """List the fenced code blocks of a Markdown text, in order.

    Args:
      text: any text.
      looks_inside: replace a block of Markdown by the blocks in it.
    """
    lines = _with_fences_apart(text).split("\n")
    blocks: list[CodeBlock] = []
    for first, last in _fenced(lines):
        start = max(first, blocks[-1].end if blocks else 0)
        while start < last and (opening := FENCE.match(lines[start])):
            block = _block(lines, start, opening, last)
            is_markdown = looks_inside and block.tag in MARKDOWN_TAGS
            inner = code_blocks(block.code, looks_inside=False) if is_markdown else []
            blocks += [part._replace(start=block.start, end=block.end) for part in inner] or [block]
            start = block.end
    return blocks


@functools.cache
def _parser() -> markdown_it.MarkdownIt:
    # Fences alone, however deep a list has indented them: the rules for nested quotes and lists take minutes for what a
    # policy may write, and nothing here needs them.
    return markdown_it.MarkdownIt("zero").enable("fence").disable("inline")


def _fenced(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the first line of each fenced block and the line after it, by the rules of CommonMark."""
    for token in _parser().parse("\n".join(lines)):
        if token.type == "fence" and token.map:
            yield token.map[0], token.map[1]


def _with_fences_apart(text: str) -> str:
    """Put a fence with a language that follows words, outside of blocks, on a line of its own."""
    for _ in range(MAX_REPAIRS):
        lines = text.split("\n")
        behind = {number: parts for number, line in enumerate(lines) if (parts := _words_and_fence(line))}
        if not behind:
            return text
        in_code = {line for first, last in _fenced(lines) for line in range(first, last)}
        first_behind = next((number for number in behind if number not in in_code), None)
        if first_behind is None:
            return text
        lines[first_behind] = "\n".join(behind[first_behind])
        text = "\n".join(lines)
    return text


def _words_and_fence(line: str) -> tuple[str, str] | None:
    """Split a line that ends with words, a fence and a language; None for any other."""
    head, fence, tag = line.rstrip().rpartition("```")
    words = head.rstrip("`")
    if not fence or "`" in words or not words.strip() or not LANGUAGE.fullmatch(tag):
        return None
    return words, line.rstrip()[len(words) :]


def _block(lines: Sequence[str], start: int, opening: re.Match[str], last: int) -> CodeBlock:
    """Read the block that opens at `start`; `last` is where CommonMark has it end.

    The block ends earlier where another one opens or a closing fence is followed by words, and later where CommonMark
    takes a line of a Python string for the closing fence.
    """
    info = opening["info"].split()
    tag = info[0].lower() if info else ""
    is_python = tag in TAGS["python"] or not tag
    closings = 0
    for number in range(start + 1, len(lines)):
        match = FENCE.match(lines[number])
        if match is None or match["fence"][0] != opening["fence"][0]:
            continue
        closes = len(match["fence"]) >= len(opening["fence"]) and (not match["info"] or match["info"][0] in " \t")
        if not closes and (number >= last or not re.match(r"\w", match["info"])):
            continue
        closings += 1
        code = _outdented(lines[start + 1 : number], opening["indent"])
        if is_python and closings <= MAX_CLOSINGS and _has_open_string(code):
            continue
        return CodeBlock(tag, code, start, number + closes)
    # Never closed, or closed only within what looks like a string: as CommonMark has it.
    is_closed = last - 1 > start and FENCE.match(lines[last - 1]) is not None
    return CodeBlock(tag, _outdented(lines[start + 1 : last - is_closed], opening["indent"]), start, last)


def _outdented(lines: Sequence[str], indent: str) -> str:
    """Join lines after removing the indentation of their fence; lines may have less."""
    outdented = (re.sub(rf"^[ \t]{{1,{len(indent)}}}", "", line) if indent else line for line in lines)
    code = "\n".join(outdented)
    return code if not code or code.endswith("\n") else code + "\n"


def _has_open_string(code: str) -> bool:
    """Say whether Python code ends inside a multi-line string."""
    if "'''" not in code and '"""' not in code:
        return False
    lines = iter(code.splitlines(keepends=True))
    try:
        for _ in tokenize.generate_tokens(lambda: next(lines, "")):
            pass
    except tokenize.TokenError as error:
        return "string" in str(error.args[0])
    except (SyntaxError, ValueError):
        return False
    return False


def _breaks_off(answer: str, block: CodeBlock) -> bool:
    """Say whether the words after the last block end in the middle of a sentence."""
    after = "\n".join(_with_fences_apart(answer).split("\n")[block.end :]).strip()
    return bool(after) and (after[-1].isalnum() or after[-1] in ",;-")
