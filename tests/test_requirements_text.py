"""A dependency file's bytes as text, and back."""

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from musadoctor.requirements.text import Decoded, decode, line_end

LINES = "torch==2.4.0+cu121\r\nnumpy  # 注释\n"


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (LINES.encode(), "utf-8"),
        (codecs.BOM_UTF8 + LINES.encode(), "utf-8-sig"),
        (codecs.BOM_UTF16_LE + LINES.encode("utf-16-le"), "utf-16-le"),
        (codecs.BOM_UTF16_BE + LINES.encode("utf-16-be"), "utf-16-be"),
        (codecs.BOM_UTF32_LE + LINES.encode("utf-32-le"), "utf-32-le"),
        (codecs.BOM_UTF32_BE + LINES.encode("utf-32-be"), "utf-32-be"),
        (LINES.encode("utf-16-le"), "utf-16-le"),
        (LINES.encode("utf-16-be"), "utf-16-be"),
        (LINES.encode("gbk"), "gb18030"),
        (f"# -*- coding: gbk -*-\n{LINES}".encode("gbk"), "gbk"),
        (f"\n# vim: set fileencoding=utf-8 :\n{LINES}".encode(), "utf-8"),
        # A coding line after the second is none, nor is one that Python cannot follow.
        (f"\n\n# coding: latin-1\n{LINES}".encode(), "utf-8"),
        (f"# coding: no-such-thing\n{LINES}".encode(), "utf-8"),
        (f"# coding: rot13\n{LINES}".encode(), "utf-8"),
        (f"# coding: punycode\n{LINES}".encode(), "utf-8"),
        (f"# coding: ascii\n{LINES}".encode(), "utf-8"),
        (f"coding: latin-1\n{LINES}".encode(), "utf-8"),
        ("# Andr\xe9\ntorch\n".encode("cp1252"), "latin-1"),
        (b"\x1b[31mtorch\n", "utf-8"),
        (b"", "utf-8"),
    ],
)
def test_text_is_read_and_written_back_as_it_was(data: bytes, encoding: str) -> None:
    decoded = decode(data)
    assert (decoded.encoding, decoded.problem) == (encoding, "")
    assert "torch" in decoded.text or not data
    assert not decoded.text.startswith("\ufeff")
    assert decoded.encode(decoded.text) == data


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\x7fELF\x02\x01\x01\0\0\0\0", "binary, byte 8 is NUL"),
        (b"torch\0==2.4\n", "binary, byte 6 is NUL"),
        (b"\0" * 100, "binary, byte 1 is NUL"),
        ("漢字漢字漢字\0a".encode("utf-16-le"), "binary, byte 13 is NUL"),
        (b"\x1f\x8b\x08\x01\xff\xfe\xfd", "binary, byte 1 is no text"),
        (codecs.BOM_UTF8 + b"\xff", "not utf-8-sig at byte 1"),
        (codecs.BOM_UTF16_LE + b"a", "not utf-16-le at byte 1"),
    ],
)
def test_what_is_no_text_is_said(data: bytes, problem: str) -> None:
    assert decode(data) == Decoded("", "", problem)


@given(st.binary())
def test_any_bytes_are_text_or_a_problem(data: bytes) -> None:
    decoded = decode(data)
    assert bool(decoded.encoding) != bool(decoded.problem)
    assert decoded.text == "" or decoded.encoding


@given(st.text(st.characters(min_codepoint=9, max_codepoint=126, categories=["L", "N", "P", "Zs"])))
def test_utf_16_without_a_mark_is_recognised(text: str) -> None:
    data = f"torch\n{text}".encode("utf-16-le")
    assert decode(data) == Decoded(f"torch\n{text}", "utf-16-le")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "\n"),
        ("torch", "\n"),
        ("torch\nnumpy\r\n", "\n"),
        ("torch\r\nnumpy\r\nscipy\n", "\r\n"),
        ("torch\rnumpy\r", "\r"),
    ],
)
def test_the_line_end_is_that_of_most_lines(text: str, expected: str) -> None:
    assert line_end(text) == expected
