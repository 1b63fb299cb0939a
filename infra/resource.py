"""One thing that is made in a cloud project: how it is looked for, made and deleted, and what it holds."""

import dataclasses

Argv = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Resource:
    """A thing in the cloud, by the commands that concern it.

    It is there if `describe` succeeds and every word of `words` stands in what it prints, and incomplete if some do. It
    is made by the commands of `create`, in their order; without any, it must exist. It ends by those of `delete`;
    without any, it goes along with the one that it is `inside`, or stays for the reason in `kept`.
    """

    name: str
    what: str
    describe: Argv
    words: tuple[str, ...]
    create: tuple[Argv, ...] = ()
    delete: tuple[Argv, ...] = ()
    # What deleting it loses that running `create` again does not bring back.
    loses: str = ""
    # Name of the resource without which it cannot be.
    inside: str = ""
    # Service of Google that must be enabled before it can be asked about.
    api: str = ""
    kept: str = ""
    # It holds what runs have written.
    is_data: bool = False
    # What is run once it is there, before anything inside it is asked about.
    enter: Argv = ()
