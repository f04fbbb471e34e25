"""An OpenAI-compatible endpoint: any server that answers chat completions.

One reply passes, in this order:
`client` sends a request with the SDK and translates what comes back into `answers`,
`faults` reads what a server says went wrong, `verdicts` decides what that calls for,
`parse` makes a domain Reply of a good body, `textcalls` finds calls that were written as text,
`pursuit` asks again, waits or gives up accordingly; `waits` says how long, `redact` keeps secrets out of words.
"""
