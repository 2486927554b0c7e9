"""Settings: declared once a key, layered, validated at start. Entry point: `controller.config.load.load_settings`."""
