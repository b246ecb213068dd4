"""Divides a decoder's network among devices."""
