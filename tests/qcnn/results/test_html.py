"""Tables for the output of notebook cells."""

from html.parser import HTMLParser

from qcnn.results.html import notebook_table


class _Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, list[tuple[str, str | None]]]] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, attrs))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_notebook_table_escapes_all_texts() -> None:
    evil = '<script src="https://x">1</script>'
    page = _Tags(notebook_table(evil, evil, [evil, "b"], [[evil, evil], [1, None]]))
    assert {tag for tag, _ in page.tags} == {"div", "p", "b", "table", "thead", "tbody", "tr", "th", "td"}
    assert [attributes for _, attributes in page.tags if attributes] == [[("class", "tex2jax_ignore mathjax_ignore")]]
    assert sum(evil in text for text in page.texts) == 5


def test_notebook_table_rounds_numbers_and_shortens_texts() -> None:
    texts = _Tags(notebook_table("", "", (), [("mse", 0.123456789), ("name", "a" * 500)])).texts
    assert "0.123457" in texts
    assert max(map(len, texts)) == 121


def test_notebook_table_of_many_rows_ends_with_their_number() -> None:
    page = _Tags(notebook_table("", "", ["row"], [[number] for number in range(50)]))
    assert [tag for tag, _ in page.tags].count("td") == 20
    assert "and 30 more" in page.texts
