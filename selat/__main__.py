"""`python -m selat` is the command `selat`."""

from selat.cli import main

main()
