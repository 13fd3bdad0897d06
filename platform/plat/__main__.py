"""`python -m plat` is `plat`: it does not import modules or plug-ins from the current folder either."""

import os
import sys


def _forget_current_folder() -> None:
    """Python puts the current folder first on the path of `python -m`; plat itself may lie there, in a checkout."""
    current = os.getcwd()
    folder_of_plat = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if not sys.flags.safe_path and sys.path and sys.path[0] in ("", current) and folder_of_plat != current:
        del sys.path[0]


if __name__ == "__main__":
    _forget_current_folder()
    from plat.entry import main

    main()
