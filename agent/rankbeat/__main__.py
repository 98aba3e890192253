"""`python -m rankbeat`: the command line."""

from rankbeat.cli import main

if __name__ == "__main__":
    main()
