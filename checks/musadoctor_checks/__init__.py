"""The built-in checks of musadoctor, a package of checks like any other."""
