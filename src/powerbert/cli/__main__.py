"""`python -m powerbert.cli`, which `accelerate launch -m` needs."""

from powerbert.cli.main import main

if __name__ == "__main__":
    main()
