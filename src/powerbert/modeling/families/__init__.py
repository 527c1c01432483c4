"""One small adapter per family: where attention and feed-forward live, what depends on position."""
