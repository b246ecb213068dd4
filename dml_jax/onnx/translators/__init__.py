"""The translators of op types, a module for each kind."""
