"""How lines are split into words, and into lists of words."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_magic.errors import CommandError
from mcp_magic.schema.words import split_line, split_list


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", []),
        ("  call   math:add a=1 ", ["call", "math:add", "a=1"]),
        ("call t text='two words'", ["call", "t", "text=two words"]),
        ('call t x:={"a": [1, 2], "b c": "d e"} y=1', ["call", "t", 'x:={"a": [1, 2], "b c": "d e"}', "y=1"]),
        ('call t x:="a b"', ["call", "t", 'x:="a b"']),
        ("call t 'x:=[1, 2]'", ["call", "t", "x:=[1, 2]"]),
        ("call t x={a + b} y={d['k'] if x > 1 else {}}", ["call", "t", "x={a + b}", "y={d['k'] if x > 1 else {}}"]),
        ("connect {base + '/mcp'} --name x", ["connect", "{base + '/mcp'}", "--name", "x"]),
        ('call t p={"x": 1, "y": [2]} n=1', ["call", "t", 'p={"x": 1, "y": [2]}', "n=1"]),
        ('call t p={"x":1}', ["call", "t", 'p={"x":1}']),
        ("call t p={'x': x, **more} n=1", ["call", "t", "p={'x': x, **more}", "n=1"]),
        ("call t p={} q={{1, 2}}", ["call", "t", "p={}", "q={{1, 2}}"]),
        ('call t {"a": 1} b=2', ["call", "t", '{"a": 1}', "b=2"]),
        ("call t x={'}'} y=1", ["call", "t", "x={'}'}", "y=1"]),
        ("connect -- python -c 'print(1)'", ["connect", "--", "python", "-c", "print(1)"]),
        ("call t a=b=c", ["call", "t", "a=b=c"]),
        ("call t x=", ["call", "t", "x="]),
        (r"call t x=C:\Users\me\data.csv", ["call", "t", r"x=C:\Users\me\data.csv"]),
        (r'call t x="C:\my files\a" y=\\server\share', ["call", "t", r"x=C:\my files\a", r"y=\\server\share"]),
        (r"call t x=C:\data\ y=1", ["call", "t", "x=C:\\data\\", "y=1"]),
        (r"call t x=it\'s y=\"q\" z='C:\'", ["call", "t", "x=it's", 'y="q"', "z=C:\\"]),
        (r'call t x="say \"hi\"" y="C:\\" z="\d\'"', ["call", "t", 'x=say "hi"', "y=C:\\", r"z=\d\'"]),
        (r"call t price=\$5 a\.b=1 \{x}", ["call", "t", r"price=\$5", r"a\.b=1", r"\{x}"]),
        (r"connect C:\a.py -- sh -c a\ b \"c", ["connect", r"C:\a.py", "--", "sh", "-c", "a b", '"c']),
        ('call t x=[1, 2] e=[{"name": "A"}] n=1', ["call", "t", "x=[1, 2]", 'e=[{"name": "A"}]', "n=1"]),
        ("call t x=[1, 2", ["call", "t", "x=[1,", "2"]),
        ("call t text='日本 語'", ["call", "t", "text=日本 語"]),
        ("call t x={not closed", ["call", "t", "x={not", "closed"]),
        ("ping weather   # is it there?", ["ping", "weather"]),
        ("tools  #", ["tools"]),
        ("call t x=#fff y='a # b' #tag", ["call", "t", "x=#fff", "y=a # b", "#tag"]),
        ("connect http://a/b#c -- sh -c 'x # y'", ["connect", "http://a/b#c", "--", "sh", "-c", "x # y"]),
    ],
)
def test_lines_are_split_as_a_person_means_them(line, words):
    assert split_line(line) == words


WORDS = st.text(alphabet=st.characters(blacklist_categories=("Cs",), blacklist_characters="\x00"), max_size=20)


@given(st.lists(WORDS))
def test_words_that_a_shell_quotes_are_split_again(words):
    assert split_line(" ".join(shlex.quote(word) for word in words)) == words


def test_unclosed_quotation_says_how_to_quote():
    with pytest.raises(CommandError) as caught:
        split_line("call t text='two words")
    assert str(caught.value) == (
        "cannot read \"text='two words\": no closing quotation; a value with spaces goes in quotes: name='two words'"
    )


@pytest.mark.parametrize(
    ("line", "lists"),
    [
        ("", [[]]),
        ("a", [["a"]]),
        ("a x=1, b  y=2 ,c , d", [["a", "x=1"], ["b", "y=2", ",c"], ["d"]]),
        ("a x=1,2 y=a,b, b", [["a", "x=1,2", "y=a,b"], ["b"]]),
        ('a x=["c, d", "e"], b', [["a", 'x=["c, d", "e"]'], ["b"]]),
        ('a x:=[1, 2], {"y": 1}, b', [["a", "x:=[1, 2]"], ['{"y": 1}'], ["b"]]),
        ("a x={max(value, 3) > 2}, b # c, d", [["a", "x={max(value, 3) > 2}"], ["b"]]),
        ("a x='Paris, France', b y=\"z,\"", [["a", "x=Paris, France"], ["b", "y=z,"]]),
        ("a -- x, b", [["a", "--", "x"], ["b"]]),
        ("a,", [["a"], []]),
        (", a", [[], ["a"]]),
    ],
)
def test_a_comma_that_ends_a_word_begins_a_list(line, lists):
    assert split_list(line) == lists


@given(st.lists(st.lists(WORDS, min_size=1), min_size=1))
def test_lists_of_quoted_words_are_split_again(lists):
    line = ", ".join(" ".join(shlex.quote(word) for word in words) for words in lists)
    if all(word and "'" not in word for words in lists for word in words):
        assert split_list(line) == lists
