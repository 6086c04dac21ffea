"""Renderers: functions of the report, one file each."""
