"""Checks of one site."""
