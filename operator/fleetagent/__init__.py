"""FleetAgent: a Kubernetes operator whose resources are agents that keep a rented GPU fleet on target and in budget.

entrypoints.handlers   kopf's events and beats: translate, never decide
agent.triggers         a keeper for each agent; a nudge wakes it
agent.keeper           asks what is due: schedule, wakes, annotations, changes of the fleet
agent.turn             one run: claim, observe, skip or think and act, conclude. READ THIS FIRST
agent.observe          the facts: fleet (complete or unknown), demand, money
agent.compose          system prompt, summary, history and observation; it must fit
agent.loop             ask the model, answer its calls, until it is done or a limit is reached
agent.toolbox          one call: validate, guardrails, ledger, effect, words
agent.report           status, conditions, Events
domain, ports          what all of these think with, and what they need of the world; adapters fill the ports
bootstrap.build        which real thing stands behind each port
"""
