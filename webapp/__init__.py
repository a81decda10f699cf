"""Exportdesk's web side: domain, store, actions, pages, API and live channels."""
