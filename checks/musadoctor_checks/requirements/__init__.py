"""The guard's checks: what a line of a dependency file would do to the vendor's stack."""
