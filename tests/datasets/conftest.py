"""Fixtures of the sources' tests."""

from mariadb import mariadb as mariadb
