"""Run `python -m plat` as the script `plat`, without modules or plug-ins from the current folder on the path."""

import os
import sys


def _forget_current_folder() -> None:
    """Remove the current folder, which `python -m` puts first on `sys.path`, unless plat itself lies there."""
    current = os.getcwd()
    folder_of_plat = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if not sys.flags.safe_path and sys.path and sys.path[0] in ("", current) and folder_of_plat != current:
        del sys.path[0]


if __name__ == "__main__":
    _forget_current_folder()
    from plat.entry import main

    main()
