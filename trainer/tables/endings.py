"""The formats of tables, by the endings of their names; to import it loads no library that reads them."""

from trainer.errors import ConfigError

ENDINGS = (".csv", ".parquet", ".npz", ".jsonl")


def check_ending(word: str, name: str) -> None:
    """Refuse the name of a file whose format is not known.

    Raises:
        ConfigError: no table ends so.
    """
    if not name.lower().endswith(ENDINGS):
        raise ConfigError(f"{word}: must end in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}. Given: {name}")
