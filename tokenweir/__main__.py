"""`python -m tokenweir` is the `tokenweir` command."""

from tokenweir.cli import main

main()
