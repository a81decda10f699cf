"""Exportdesk's workers: they execute exports and keep the promises (deliveries, sweeps)."""
