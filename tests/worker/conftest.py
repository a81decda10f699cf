"""Fixtures of the worker's tests."""

from mariadb import mariadb as mariadb
