"""`regard schema`."""

from regard.cli.output import say


def schema() -> None:
    """Print the JSON schema of run files, for editors.

    An editor with the YAML language server completes and checks a file whose
    first line is `# yaml-language-server: $schema=regard.schema.json`, as
    `regard new` writes it.
    """
    from regard.config.schema import written
    from regard.runs import keys

    say(written(keys.schema()).removesuffix("\n"))
