"""`python -m plat` is `plat`."""

from plat.cli import main

if __name__ == "__main__":
    main()
