"""The checks of ``musadoctor verify``: they judge what was computed on the devices."""
