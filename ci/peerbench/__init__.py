"""fabbench beside other tools in the Soft-RoCE lab: what `ci/bench-peers` runs."""
