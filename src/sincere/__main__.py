"""`python -m sincere …`, and `torchrun … -m sincere train …`."""

from sincere.cli import main

if __name__ == "__main__":
    main()
