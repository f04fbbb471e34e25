#!/bin/sh
# What a rented machine runs: it tells the operator how far it is, and makes proofs. POSIX sh and curl, nothing else.
#
#   register -> fetch parameters -> param-done -> benchmark -> bench-done -> running, again and again
#
# The operator gives (see docs/how-to/write-a-worker-image.md):
#   FLEETAGENT_URL     this machine's own base URL; there is a secret in it
#   MIN_RATE           proofs per hour that the benchmark must reach; 0: anything above 0
# The image gives three commands:
#   FETCH_PARAMETERS   ends with 0 when the proof parameters are on the disk
#   BENCHMARK          the last line of its output is the rate in proofs per hour, such as 97.5
#   PROVE              makes proofs until it is ended
#
# Exit codes: 0 told to end by a signal; 10 the machine is not known or has ended; 11 the benchmark was refused;
# 12 the operator cannot make sense of a call; 13 the image lacks something. After any of them the machine is of no use.
set -eu

: "${FETCH_PARAMETERS:=fetch-parameters}" "${BENCHMARK:=benchmark}" "${PROVE:=prove}"
: "${PAUSES:=1 2 5 10 30 60}"   # seconds between tries; the last one is repeated
: "${RUNNING_EVERY:=60}"        # seconds between two "running"
: "${FETCH_TRIES:=3}"

log() { printf 'worker: %s\n' "$*" >&2; }

fail() {  # fail CODE WORDS
    code=$1
    shift
    log "$*"
    exit "$code"
}

[ -n "${FLEETAGENT_URL:-}" ] || fail 13 "FLEETAGENT_URL is not set: only a machine that the operator rented has one"
command -v curl >/dev/null || fail 13 "the image has no curl"
base=${FLEETAGENT_URL%/}
unset FLEETAGENT_URL  # the secret in it is nobody else's business
is_rate() { printf '%s\n' "$1" | grep -Eqx '(0|[1-9][0-9]{0,5})([.][0-9]{1,6})?'; }
is_rate "${MIN_RATE:-}" || MIN_RATE=0
export MIN_RATE
# vast.ai calls a container C.<id>. The label is recorded and shown; the secret in the URL says who speaks.
label=$(printf '%s' "${VAST_CONTAINERLABEL:-$(hostname)}" | tr -cd 'A-Za-z0-9._-' | cut -c1-100)

scratch=$(mktemp -d)
prover=
clean_up() {
    trap - EXIT INT TERM
    [ -z "$prover" ] || kill "$prover" 2>/dev/null || :
    rm -rf "$scratch"
}
trap clean_up EXIT
trap 'clean_up; exit 0' INT TERM

rest() {  # a sleep that a signal can end
    sleep "$1" &
    wait $! || :
}

# say CALL BODY: tell it until it is heard. The answer's body is in $answer.
say() {
    pauses=$PAUSES
    while :; do
        : >"$scratch/answer"
        # The URL goes in by stdin: arguments can be read by everybody on the machine.
        status=$(printf 'url = "%s/%s"\n' "$base" "$1" |
            curl --config - --silent --max-time 20 --max-filesize 65536 --output "$scratch/answer" \
                --write-out '%{http_code}' --header 'Content-Type: application/json' --data "$2") || status=000
        answer=$(tr -d '\000' <"$scratch/answer" | head -c 4096)
        case $status in
        200) return 0 ;;
        404)
            # The operator says why; a 404 without its words comes from something in between, such as an ingress.
            case $answer in *'"error"'*) fail 10 "$1: $answer: this machine is not wanted any more" ;; esac
            ;;
        408 | 429 | 5?? | 000) ;;
        *) fail 12 "$1: answered $status: $answer" ;;
        esac
        pause=${pauses%% *}
        pauses=${pauses#"$pause" }
        log "$1: not heard ($status); once more in $pause s"
        rest "$pause"
    done
}

said_yes() {  # said_yes NAME: whether the answer has "NAME": true
    printf '%s' "$answer" | grep -Eq "\"$1\" *: *true"
}

register() {
    say register "{\"label\": \"${label:-worker}\", \"min_rate\": $MIN_RATE}"
    uuid=$(printf '%s' "$answer" | sed -n 's/.*"uuid" *: *"\([0-9a-fA-F-]*\)".*/\1/p')
    [ -n "$uuid" ] || fail 12 "register: the answer has no uuid: $answer"
    log "registered as $uuid; at least $MIN_RATE proofs/h are asked for"
}

fetch_parameters() {
    tries=$FETCH_TRIES
    until sh -c "$FETCH_PARAMETERS" >&2; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || return 1
        log "fetching parameters failed; $tries tries are left"
        rest "${PAUSES%% *}"
    done
}

# The rate that the benchmark measured; 0 when it failed or said something else.
measure() {
    measured=
    if sh -c "$BENCHMARK" >"$scratch/benchmark"; then
        measured=$(tail -n 1 "$scratch/benchmark" | tr -d '[:space:]' | cut -c1-80)
    fi
    is_rate "$measured" || {
        log "the benchmark failed or gave no rate ('$measured'): that counts as 0"
        measured=0
    }
}

report_rate() {  # report_rate RATE: ends here when it is not enough
    say bench-done "{\"uuid\": \"$uuid\", \"rate\": $1}"
    said_yes passed ||
        fail 11 "refused: $1 proofs/h, and at least $MIN_RATE are needed. The operator ends this machine"
}

# Prove, and say so, for as long as both the prover and the operator agree.
prove() {
    sh -c "exec $PROVE" >&2 &
    prover=$!
    while kill -0 "$prover" 2>/dev/null; do
        say running "{\"uuid\": \"$uuid\"}"
        said_yes ok || {
            log "running: the operator wants to hear all of it once more"
            break
        }
        rest "$RUNNING_EVERY"
    done
    kill "$prover" 2>/dev/null || :
    wait "$prover" 2>/dev/null || log "the prover ended with code $?"
    prover=
}

# A prover that ends, or a container that starts again, begins at the top: the operator then knows of a restart, and the
# rate is measured afresh. A machine that cannot work says 0: it is ended at once, rather than paid for until a time-out.
while :; do
    register
    if fetch_parameters; then
        say param-done "{\"uuid\": \"$uuid\"}"
        measure
    else
        log "the parameters cannot be fetched: saying a rate of 0"
        measured=0
    fi
    report_rate "$measured"
    log "passed with $measured proofs/h"
    prove
    rest "${PAUSES%% *}"
done
