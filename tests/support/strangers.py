"""What those may say whom we do not trust, and rows of long ago that hold it."""

from dataclasses import dataclass

from support.stage import NAME, Stage

HOSTILE = (
    '<img src=x onerror="document.title=`stolen`"><script>document.title="stolen"</script>\u202egnp.exe & "q" \'p\''
)
"""What a host, a model or a person may be called or say; as a page it would change its title."""
LONG_WORD = "w" * 200


@dataclass(frozen=True)
class Strangers:
    """What those say whom we do not trust: the model, and the market of its hosts."""

    words: str = HOSTILE
    host: str = HOSTILE
    gpu: str = f"RTX 4090 {LONG_WORD}"
    failure: str = HOSTILE


FRIENDLY = Strangers("The market is calm.", "104233", "RTX 4090", "it stayed in phase loading for more than 15m")
"""As they usually are: for pictures."""


def a_past(stage: Stage, strangers: Strangers) -> None:
    """A day of samples, two weeks of spend; machines that are gone, with names as a hostile market would give them."""
    stage.rows("DELETE FROM samples WHERE proofs_per_hour = 0 RETURNING 1")  # of the first seconds
    given = "WITH given AS (SELECT id, %s AS host, %s AS gpu, %s AS failure FROM agents WHERE name = %s)"
    for query in (_MACHINES, _HOSTS, _SAMPLES, _SPEND):
        said_by = (strangers.host, strangers.gpu, strangers.failure)
        stage.rows(f"{given} {query} RETURNING 1", *said_by, NAME)


_MACHINES = """
    INSERT INTO instances (agent_id, label, number, provider_id, phase, phase_since, timeline, requested_at, machine_id,
      gpu_name, num_gpus, cpu_ram_gb, cpu_cores, usd_per_hour, expected_rate, measured_rate, billed_until, gone_at,
      failure)
    SELECT id, 'fa/page/' || n, 900 + n, 'p' || n, ended, gone_at,
      (SELECT jsonb_agg(jsonb_build_array(phase, gone_at - before * interval '1 h') ORDER BY before DESC)
       FROM (VALUES ('requested', 6), ('loading', 5), ('registered', 4), ('benchmarking', 3), ('proving', 2),
         ('stopping', 0.2), (ended, 0)) AS life (phase, before)),
      gone_at - interval '6 h', host, gpu, 2, 256, 32, 0.757, 120, 118.4, gone_at, gone_at,
      CASE ended WHEN 'failed' THEN failure END
    FROM given, generate_series(1, 3) AS n,
      LATERAL (SELECT CASE n WHEN 3 THEN 'failed' ELSE 'gone' END AS ended, now() - n * interval '1 h' AS gone_at) x
"""
_SAMPLES = """
    INSERT INTO samples (agent_id, at, proving, on_the_way, proofs_per_hour, projected_proofs_per_hour,
      target_proofs_per_hour, usd_per_hour)
    SELECT id, now() - n * interval '5 min', 2, 1, 190 + 60 * sin(n / 17.0), 215 + 45 * sin(n / 17.0 + 0.4),
      CASE WHEN n < 200 THEN 200 ELSE 160 END, 1.19 + 0.3 * round(sin(n / 17.0)::numeric)
    FROM given, generate_series(1, 288) AS n
"""
_SPEND = """
    INSERT INTO spend (agent_id, day, kind, usd, tokens)
    SELECT id, (now() AT TIME ZONE 'UTC')::date - n, kind, CASE kind WHEN 'fleet' THEN 24 + n ELSE 0.4 END,
      CASE kind WHEN 'model' THEN 900000 + 40000 * n ELSE 0 END
    FROM given, generate_series(1, 13) AS n, (VALUES ('fleet'), ('model')) AS of (kind)
"""
_HOSTS = """
    INSERT INTO hosts (agent_id, machine_id, gpu_name, num_gpus, rates, measured_at, failures, failed_at,
      excluded_until, last_failure)
    SELECT id, host, gpu, 2, '[118.4, 119.0]', now() - interval '3 h', 2, now() - interval '1 h',
      now() + interval '5 h', failure
    FROM given
"""
