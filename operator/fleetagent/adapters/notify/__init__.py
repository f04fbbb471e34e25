"""Alerts to the outside, by apprise: chats, pagers, mail and plain webhooks, each named by a URL."""

from fleetagent.adapters.notify.pager import ApprisePager

__all__ = ["ApprisePager"]
