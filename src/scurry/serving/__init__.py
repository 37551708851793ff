"""Serve a model over HTTP with version 2 of the Open Inference Protocol: ``scurry serve model.scurry``."""

from scurry.serving.app import App, create_app, serve

__all__ = ["App", "create_app", "serve"]
