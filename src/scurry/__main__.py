"""``python -m scurry``: the same as the command ``scurry``."""

from scurry.cli import main

if __name__ == "__main__":
    main()
