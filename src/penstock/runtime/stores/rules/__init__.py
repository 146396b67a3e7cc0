"""Rules that every store applies in the same way, so that no two stores differ in them."""
