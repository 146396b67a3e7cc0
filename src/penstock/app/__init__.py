"""The composition root: settings and bootstrap. The only place that names real adapters."""
