"""A corpus of documentation: what is text in each format, what is no prose, and each paragraph once."""

from __future__ import annotations

import gzip
import io
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import prose_corpus
from nanopace.corpus.shards.corpus import open_corpus
from prose_corpus import (
    Seen,
    collect,
    divided,
    documents_in,
    download,
    is_boilerplate,
    is_licence,
    is_numbers,
    is_prose,
    is_sentence,
    one_format,
    paragraphs_of,
    wanted_name,
    without_frame,
    without_menus,
)
from prose_text import info_text, man_text, markup_text, plain, pod_text

SENTENCE = "The reader of this manual is one who wants to know what the program does with a file."


def _story(number: int, sentences: int = 6) -> str:
    """A document of its own: digits do not tell two paragraphs apart, so the number is in letters."""
    name = "".join("abcdefghij"[int(digit)] for digit in str(number))
    return "\n\n".join(
        f"In chapter {name} of part {'xvi'[each % 3] * (each + 1)}, {SENTENCE}" for each in range(sentences)
    )


# --- text ------------------------------------------------------------------------------------------------------------


def test_a_page_keeps_paragraphs_and_code_and_loses_the_rest() -> None:
    page = """<!DOCTYPE html><html><head><title>no</title><style>p > a {}</style></head><body>
    <div class="sphinxsidebar"><div>Next <div>topic</div></div></div><nav>Home</nav><script>if (a < b) "</p>";</script>
    <h1>Reading<a class="headerlink" href="#x">¶</a></h1><p title="a > b">One &lt;file&gt;
      in <b>two</b>   lines.</p><ul><li>first</li><li>second</li></ul>
    <pre>for x in y:\n    <div><span class="n">print</span></div>(x)\n\n    done()</pre><!-- no <p> -->
    <table><tr><td>name</td><td>value</td></tr></table><div class="wy-nav-content">kept</div></body></html>"""
    assert markup_text(page) == (
        "Reading\n\nOne <file> in two lines.\n\nfirst\n\nsecond\n\n"
        "for x in y:\n    print(x)\n\n    done()\n\nname value\n\nkept"
    )


@given(st.text(alphabet="<>/!-'\"=&; \npab", max_size=60))
def test_no_page_is_too_broken(page: str) -> None:
    text = markup_text(page)
    assert text == text.strip()
    assert "\n\n\n" not in text


@given(st.lists(st.text(alphabet="abc <>&", min_size=1, max_size=20).filter(str.strip), min_size=1, max_size=6))
def test_a_page_s_paragraphs_are_read_back(paragraphs: list[str]) -> None:
    escaped = [each.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") for each in paragraphs]
    page = "<body>" + "".join(f"<p class=x>{each}</p>\n" for each in escaped)
    assert markup_text(page).split("\n\n") == [" ".join(each.split()) for each in paragraphs]


def test_docbook() -> None:
    page = """<?xml version="1.0"?><!DOCTYPE book PUBLIC "-//OASIS//DTD DocBook XML V4.5//EN" "x.dtd" [<!ENTITY a "b">]>
    <chapter><title>Files</title><para>A <filename>file</filename>.</para><indexterm><primary>no</primary></indexterm>
    <programlisting><![CDATA[if a:
    b]]></programlisting></chapter>"""
    assert plain("usr/a.xml", page.encode()) == "Files\n\nA file.\n\nif a:\n    b"
    assert plain("usr/a.xml", b"<config><value>The</value></config>") is None


def test_a_man_page() -> None:
    page = r""".\" no
.TH CAT 1
.SH NAME
cat \- joins \fBfiles\fR
.SH "TWO WORDS"
.TP
.BR \-n , " \-\-number"
Numbers the
\*(L"lines\*(R" of \*(Aqa\*(Aq.
.TS
a	b
.TE
.nf
cat a
  b
.fi
.IP \(bu 4
end of it"""
    assert man_text(page) == (
        'NAME\n\ncat - joins files\n\nTWO WORDS\n\n-n, --number Numbers the "lines" '
        "of 'a'.\n\ncat a\n  b\n\n* end of it"
    )


def test_a_man_page_of_bsd() -> None:
    page = ".Dd May 1\n.Sh HISTORY\nThe\n.Fn read\ncall, see\n"
    page += ".Xr cat 1 ,\nappeared in\n.Bx 4.2 .\n.Pp\n.Bl\n.It Fl n Ar file\nIt."
    assert man_text(page) == "HISTORY\n\nThe read call, see cat 1, appeared in 4.2.\n\nn file It."


def test_info_and_pod() -> None:
    info = "\x1f\nFile: a.info,  Node: Top,  Next: B\n\n1 Top\n*****\n\nText.\n\n* B::  more\n"
    info += "\x1f\nTag Table:\nNode: Top\x7f1\n\x1f\nEnd Tag Table\n"
    assert info_text(info) == "1 Top\n*****\n\nText."
    assert pod_text("=head1 NAME\n\nC<< a->b >> is B<I<bold>>, see L<text|perl>. E<lt>X<no>\n\n=cut\n") == (
        "NAME\n\na->b is bold, see text. <"
    )


def test_a_dictionary_has_a_paragraph_for_each_entry() -> None:
    text = b"00-database-short\n     A dictionary\n"
    text += b"mu\n\n   The answer.\n   [1913 Webster]\n\n   Also a letter.\nnu\n   The next.\n"
    assert plain("a.dict.dz", gzip.compress(text)) == "mu\n\n   The answer.\n\n   Also a letter.\n\nnu\n   The next."


def test_a_file_s_name_says_its_format() -> None:
    assert plain("usr/share/man/man1/cat.1.gz", gzip.compress(b".SH NAME\ncat")) == "NAME\n\ncat"
    assert plain("a/index.html.en", b"<p>yes") == "yes"
    assert plain("a.txt", "größer".encode("latin-1")) == "größer"
    for name, data in (("a.png", b"x"), ("a.html.gz", b"no gzip"), ("a.txt", b"a\0b"), ("a", b"x")):
        assert plain(name, data) is None, name


# --- filters ---------------------------------------------------------------------------------------------------------


def test_names_that_are_no_prose() -> None:
    for name in (
        "/doc/a/tutorial.html",
        "/doc/a/en/search/intro.html",
        "/usr/share/info/a.info.gz",
        "/book/src/git.md",
    ):
        assert wanted_name(name), name
    for name in (
        "/doc/genindex.html",
        "/doc/changelog.gz",
        "/doc/copyright",
        "/doc/de/intro.html",
        "/doc/intro.pt_BR.html",
        "/doc/_sources/a.rst.txt",
        "/doc/classA-members.html",
        "/man/fr.UTF-8/man1/a.1",
        "/a/.git/x.txt",
        "/html/src/core/cell.rs.html",
    ):
        assert not wanted_name(name), name


def test_paragraphs_that_are_no_prose() -> None:
    assert is_sentence(SENTENCE)
    assert is_sentence(SENTENCE.upper())
    assert not is_sentence("Der Leser dieses Handbuchs will wissen, was das Programm mit einer Datei macht.")
    assert not is_sentence("int read_file(struct file *file, const char *name, size_t length, int flags);")
    assert not is_sentence("to be or not")
    assert is_numbers("alpha 0.125 17 33.1 4.8\nbeta 0.250 18 34.2 5.9")
    assert is_numbers("------ ===== ----")
    assert is_numbers("Это не английский язык")
    assert not is_numbers(SENTENCE)
    assert is_boilerplate("  Definition at line 12 of file a.h.")
    assert is_boilerplate("It is distributed in the hope... without even the implied warranty of merchantability.")
    assert not is_boilerplate(SENTENCE)
    assert is_licence("GNU GENERAL PUBLIC LICENSE\n\nVersion 3")
    assert not is_licence(SENTENCE * 10 + "GNU General Public License")
    assert paragraphs_of(f"Title\n\nTitle\n \n0 1 2\n\n  {SENTENCE}\n\nCopyright me") == ["Title", f"  {SENTENCE}"]


def test_a_document_is_mostly_sentences_and_no_stub() -> None:
    listing = ["int read(const char *name);"] * 20
    assert is_prose([SENTENCE] * 4)
    assert not is_prose([SENTENCE])
    assert not is_prose([SENTENCE] * 4 + listing)
    assert is_prose([SENTENCE] * 8 + listing)


def test_what_many_pages_begin_and_end_with_is_dropped() -> None:
    pages = [["Manual", f"page {each}", "See also", f"{each}. {SENTENCE}", "Next", "Up"] for each in range(5)]
    assert list(without_frame([*pages, ["Next to it"]])) == [*(page[1:4] for page in pages), ["Next to it"]]
    assert list(without_frame(pages[:4])) == pages[:4], "what four pages share may be theirs"


def test_a_list_of_names_is_dropped() -> None:
    names = [f"function_{each}()" for each in range(6)]
    assert without_menus(["Title", SENTENCE, *names, SENTENCE, *names[:5]]) == ["Title", SENTENCE, SENTENCE, *names[:5]]
    assert without_menus([*names[:3], "See below:", *names[3:]]) == [*names[:3], "See below:", *names[3:]]
    short = "This is what the program does with a file"
    assert without_menus([short] * 6) == [short] * 6


# --- each paragraph once ---------------------------------------------------------------------------------------------


def test_a_paragraph_counts_once_and_a_copy_not_at_all() -> None:
    seen = Seen()
    first, second, third = (f"{name} {SENTENCE}" for name in ("First,", "Second,", "Third,"))
    assert seen.new([first, "See also", second]) == [first, "See also", second]
    assert seen.new([third, "See also", first.upper().replace(" ", "\n")]) == [third, "See also"]
    assert seen.new([first, second, "Only this is new"]) == []
    assert seen.new([f"{second} {first}"]) == [], "the same sentences, divided in another way"


@given(st.lists(st.sampled_from([f"{name * 3} {SENTENCE}" for name in "abcdefgh"]), max_size=20))
def test_no_long_paragraph_comes_twice(paragraphs: list[str]) -> None:
    seen = Seen()
    kept = [each for paragraph in paragraphs for each in seen.new([paragraph])]
    assert kept == list(dict.fromkeys(paragraphs))


@given(st.lists(st.text(alphabet="ab", min_size=1, max_size=30)), st.integers(10, 60))
def test_a_long_document_is_divided_between_paragraphs(paragraphs: list[str], longest: int) -> None:
    parts = list(divided(paragraphs, longest))
    assert [each for part in parts for each in part.rstrip("\n").split("\n\n")] == paragraphs
    for part in parts:
        each = part.rstrip("\n").split("\n\n")
        assert len(each) == 1 or sum(map(len, each)) <= longest


# --- the corpus ------------------------------------------------------------------------------------------------------


def _folder(folder: Path, names: list[str]) -> Path:
    """Documents of these names, and a copy, a licence, German and a link, which are not documents."""
    folder.mkdir()
    for number, name in enumerate(names):
        (folder / name).write_text(_story(number))
    (folder / "z_copy.txt").write_text("A copy\n\n" + _story(0))
    (folder / "gpl.txt").write_text("GNU General Public License\n\n" + _story(100))
    (folder / "german.txt").write_text("Der Leser dieses Handbuchs will wissen, was das Programm macht.\n\n" * 9)
    outside = folder.with_name(f"{folder.name}_outside.txt")
    outside.write_text(_story(200))
    (folder / "link.txt").symlink_to(outside)
    return folder


def test_documents_do_not_depend_on_their_names(tmp_path: Path) -> None:
    first = _folder(tmp_path / "a", [f"{number}.txt" for number in range(9)])
    second = _folder(tmp_path / "b", [f"{9 - number}.md" for number in range(9)])
    once = collect([first])
    assert len(once) == 9
    assert once == collect([second]) == collect([first, second])
    assert [each.digest for each in once] == sorted(each.digest for each in once)
    assert prose_corpus._bytes(first / "gone.txt") == b"", "a file that cannot be read is left out"


def test_the_command(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "docs", [f"{number}.txt" for number in range(40)])

    def made(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, prose_corpus.__file__, str(tmp_path / "out"), "--cache", str(tmp_path / "cache")]
        command += ["--vocab", "300", "--val", "0.3", "--packages", "--also", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    done = made(str(folder), "--least", "0.001")
    assert done.returncode == 0, done.stderr
    assert "docs: 40 documents" in done.stdout
    corpus = open_corpus(tmp_path / "out")
    assert corpus.train.tokens > corpus.val.tokens > 0
    few = made(str(folder))
    assert (few.returncode, few.stderr.count("\n")) == (1, 1)
    assert "fewer than --least 60" in few.stderr
    assert "no such folder" in made(str(tmp_path / "none")).stderr


def test_a_package_is_read_without_being_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a dpkg-deb that only prints the archive, and an apt-get that knows one package."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, text in {"a.txt": _story(1), "b.png": "x", "copyright": _story(2)}.items():
            member = tarfile.TarInfo(f"./usr/share/doc/one/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    (tmp_path / "one.tar").write_bytes(packed.getvalue())
    tools = tmp_path / "tools"
    tools.mkdir()
    _script(tools / "dpkg-deb", 'exec cat "$2"')
    _script(
        tools / "apt-get",
        f'echo "$3" >> {tmp_path}/asked',
        f'[ "$3" = one ] && exec cp {tmp_path}/one.tar one_1.0_all.deb',
        "echo W: slow >&2; echo E: Unable to locate package two >&2; touch two_1.0_all.deb; exit 100",
    )
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    cache = tmp_path / "cache"
    found = download(["one", "two"], cache)
    assert [path.name for path in found] == ["one_1.0_all.deb"]
    assert capsys.readouterr().out.splitlines()[1] == "  two: left out: Unable to locate package two"
    assert [each.text for each in collect(found)] == [_story(1) + "\n"]
    assert download(["one"], cache) == found
    assert (tmp_path / "asked").read_text() == "one\ntwo\n", "what is in the cache is not downloaded again"
    found[0].write_bytes(packed.getvalue()[:700])
    assert collect(found) == []


def _script(path: Path, *lines: str) -> None:
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)


def test_without_apt_get(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(SystemExit, match="apt-get not found"):
        download(["one"], tmp_path)
    assert download([], tmp_path) == []


def test_the_frame_and_the_menus_of_pages_are_dropped() -> None:
    menu = "\n\n".join(f"name {'x' * each}" for each in range(9))
    pages = [f"Manual\n\n{_story(each, 3)}\n\n{menu}\n\n{_story(each + 10, 3)}\n\nNext" for each in range(5)]
    found = documents_in((f"/{number}.txt", page.encode) for number, page in enumerate(pages))
    assert ["\n\n".join(each) for each in found] == [
        f"{_story(each, 3)}\n\n{_story(each + 10, 3)}" for each in range(5)
    ]


def test_a_manual_is_read_in_one_format() -> None:
    page, *others = ["/html/a.html", "/a.rst.gz", "/info/m.info.gz", "/b.txt"]
    assert one_format([page, *others]) == [page, "/b.txt"]
    assert one_format(others) == others
    files = [(name, _story(number).encode) for number, name in enumerate(("/a.html", "/a.txt", "/b.txt"))]
    assert len(documents_in(files)) == 2


def test_files_are_read_only_if_their_name_may_be_prose() -> None:
    def read() -> bytes:
        raise AssertionError("read")

    assert documents_in([("/doc/changelog.txt", read)]) == []
