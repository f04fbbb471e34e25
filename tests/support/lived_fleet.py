"""Machines in each phase, hosts, and what all of it cost: rows, where no store could write them at will."""

from collections.abc import Awaitable, Callable

Sql = Callable[..., Awaitable[None]]
"""Carries out a statement with these parameters."""

HOSTILE = (
    '<img src=x onerror="document.title=`stolen`"><script>document.title="stolen"</script>'
    "\u202egnp.exe & \"q\" 'p' {{ 7 * 7 }}"
)
"""What a host, a model or a person may be called or say."""


async def a_fleet_and_its_cost(sql: Sql) -> None:
    """Machines in each phase, ended ones and hosts, and what all of it cost."""
    await sql(_MACHINES, hostile=HOSTILE)
    await sql(_HOSTS, hostile=HOSTILE)
    await sql(_SPEND)
    await sql("UPDATE runs SET tokens_estimated = true WHERE run_id = :before + 3")
    await sql("UPDATE runs SET started_at = now() - (:before + 9 - run_id) * interval '7 min' WHERE run_id > :before")
    await sql(
        "UPDATE runs SET finished_at = started_at + (run_id - :before) * interval '9 s', usd = tokens_in * 0.0000004"
        " WHERE finished_at IS NOT NULL AND run_id > :before"
    )
    await sql("UPDATE messages m SET at = r.started_at FROM runs r WHERE m.run_id = r.run_id AND r.run_id > :before")


_MACHINES = """
    INSERT INTO instances (agent_id, label, number, provider_id, phase, phase_since, timeline, requested_at, machine_id,
      gpu_name, num_gpus, cpu_ram_gb, cpu_cores, usd_per_hour, expected_rate, measured_rate, min_rate, billed_until,
      gone_at, failure)
    SELECT a.id, 'fa/past/' || n, 900 + n, CASE n WHEN 1 THEN NULL ELSE '33014' || n END, phases[1], now(),
      (SELECT jsonb_agg(jsonb_build_array(phase, now() - place * place * interval '9 min') ORDER BY place DESC)
        FROM unnest(phases) WITH ORDINALITY AS life (phase, place)),
      now() - cardinality(phases) * cardinality(phases) * interval '9 min',
      CASE n WHEN 6 THEN CAST(:hostile AS text) ELSE 'host-' || n END,
      CASE n WHEN 6 THEN CAST(:hostile AS text) ELSE 'RTX 4090' END, 2, 256, 32, 0.7571, 120,
      CASE WHEN n > 4 THEN 118.4 END, CASE n WHEN 5 THEN 95 ELSE 0 END, now(), CASE WHEN n > 6 THEN now() END,
      CASE n WHEN 8 THEN CAST(:hostile AS text) END
    FROM agents a, (VALUES (1, '{requested}'), (2, '{loading,requested}'), (3, '{registered,loading,requested}'),
      (4, '{benchmarking,registered,loading,requested}'), (5, '{proving,benchmarking,registered,loading,requested}'),
      (6, '{stopping,proving,benchmarking,registered,loading,requested}'),
      (7, '{gone,stopping,proving,benchmarking,registered,loading,requested}'), (8, '{failed,loading,requested}')
    ) AS each (n, all_phases), LATERAL (SELECT CAST(all_phases AS text[]) AS phases) AS p
"""
_HOSTS = """
    INSERT INTO hosts (agent_id, machine_id, gpu_name, num_gpus, rates, measured_at, failures, failed_at,
      excluded_until, last_failure)
    SELECT a.id, CASE n WHEN 1 THEN CAST(:hostile AS text) ELSE 'host-' || n END, 'RTX 4090', 2, '[118.4, 119.0]',
      now() - interval '3 h', CASE WHEN n < 3 THEN n ELSE 0 END, CASE WHEN n < 3 THEN now() - interval '1 h' END,
      CASE n WHEN 1 THEN now() + interval '5 h' END, CASE WHEN n < 3 THEN CAST(:hostile AS text) END
    FROM agents a, generate_series(1, 4) AS n
"""
_SPEND = """
    INSERT INTO spend (agent_id, day, kind, usd, tokens)
    SELECT a.id, CAST(timezone('UTC', now()) AS date) - ago, kind,
      CASE kind WHEN 'fleet' THEN 40.25 + ago * 7 ELSE 0.125 END,
      CASE kind WHEN 'model' THEN 100000 * (ago + 1) ELSE 0 END
    FROM agents a, generate_series(0, 9) AS ago, unnest(ARRAY['fleet', 'model']) AS kind
    ON CONFLICT (agent_id, day, kind) DO UPDATE SET usd = excluded.usd, tokens = excluded.tokens
"""
