"""`python -m firecron` is the command `firecron`."""

from firecron.cli import main

main()
