"""``python -m scurry.cli``: the same as ``python -m scurry`` and the command ``scurry``."""

from scurry.cli import main

if __name__ == "__main__":
    main()
