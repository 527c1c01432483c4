"""The demo's data: what is read from the archive, and what is refused."""

import io
import tarfile

import pytest

from powerbert.cli import movie_reviews
from powerbert.cli.movie_reviews import FILE, INNER, read_reviews
from powerbert.errors import DataError

LINES = "1\t2.5\tA superb film.\r\n2\t-1.5\tDull,\twith a tab.\r\n3\t0.0\tNeither.\r\n"


def packed(files: dict[str, bytes]) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return target.getvalue()


def test_a_sentence_gets_the_sign_of_its_mean_sentiment_and_none_is_left_out_but_the_neutral(tmp_path):
    inner = packed({f"hutto/{FILE}": LINES.encode()})
    (tmp_path / "sdist.tar.gz").write_bytes(packed({f"vader/{INNER}": inner}))
    assert read_reviews(tmp_path / "sdist.tar.gz").to_list() == [
        {"text": "A superb film.", "label": "positive"},
        {"text": "Dull,\twith a tab.", "label": "negative"},
    ]


@pytest.mark.parametrize(
    "content",
    [b"no archive", packed({"other": b""}), packed({INNER: b"no archive"})],
    ids=["no archive", "another archive", "broken inside"],
)
def test_another_file_is_refused_in_one_line(content, tmp_path):
    (tmp_path / "sdist.tar.gz").write_bytes(content)
    with pytest.raises(DataError, match="is not the source distribution"):
        read_reviews(tmp_path / "sdist.tar.gz")


def test_what_pip_cannot_fetch_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(movie_reviews, "PACKAGE", "vaderSentiment==0.0.0.no-such-version")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(DataError, match="could not be fetched"):
        movie_reviews.movie_reviews(tmp_path)
    assert not list(tmp_path.iterdir())


def test_no_code_of_a_forged_archive_runs(tmp_path, monkeypatch):
    """Oracle: a setup.py that would leave a mark, under the name and version that pip is asked for."""
    mark, cache, links = tmp_path / "it-ran", tmp_path / "cache", tmp_path / "links"
    links.mkdir()
    name = "vaderSentiment-3.3.2"
    setup = f"open({str(mark)!r}, 'w').close()\nimport setuptools\n"
    setup += "setuptools.setup(name='vaderSentiment', version='3.3.2')\n"
    info = "Metadata-Version: 1.0\nName: vaderSentiment\nVersion: 3.3.2\n"
    forged = packed({f"{name}/setup.py": setup.encode(), f"{name}/PKG-INFO": info.encode()})
    (links / f"{name}.tar.gz").write_bytes(forged)
    monkeypatch.setenv("PIP_FIND_LINKS", str(links))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_NO_BUILD_ISOLATION", "0")  # pip's own spelling of "build with what is installed"
    with pytest.raises(DataError) as error:
        movie_reviews.movie_reviews(cache)
    assert not mark.exists()
    assert "is not the archive that was published" in str(error.value)
    assert "\n" not in str(error.value)
    assert not list(cache.iterdir())
