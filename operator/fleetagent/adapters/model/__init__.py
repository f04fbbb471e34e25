"""An OpenAI-compatible endpoint: any server that answers chat completions.

One reply passes, in this order:
`gate` says when the endpoint may be asked, `payload` builds the request as the endpoint's habits want it,
`client` sends it with the SDK (`bounded` reads no endless answer) and translates what comes back into `answers`,
`reading` makes a reply or a setback of that: `faults` reads what a server says went wrong, `verdicts` (by `phrases`)
decides what it calls for, `parse` makes a domain Reply of a good body, `textcalls` finds calls written as text;
`pursuit` asks again, waits, adapts or gives up accordingly: `waits` says how long, `room` how long the answer may be,
`complaints` what to tell whom, and `redact` keeps secrets out of all words.
What an endpoint has taught us is kept by `endpoints`, for all agents that use it; `sizes` asks it for window and count.
"""
