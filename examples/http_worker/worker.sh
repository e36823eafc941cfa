#!/bin/sh
# A worker in a shell script: leases jobs over HTTP, runs them one at a time, reports their outcomes.
#
# Needs curl and jq. Set ROTA_URL and ROTA_TOKEN (with the scope "worker"); the rest is optional:
#
#   ROTA_URL=http://127.0.0.1:8080 ROTA_TOKEN=rota_... ./worker.sh
#
# Each payload goes to the standard input of a command, ROTA_COMMAND or "cat". Exit status 0 completes
# the job. 75, as in sendmail, snoozes it without spending an attempt. Any other status fails the
# attempt, and the command's standard error is kept as the reason.

set -u

: "${ROTA_URL:?is missing: the address of the service, for example http://127.0.0.1:8080}"
token=${ROTA_TOKEN:-}
worker=${ROTA_WORKER:-"worker.sh on $(hostname) ($$)"}
queue=${ROTA_QUEUE:-shell}
command=${ROTA_COMMAND:-cat}
lease_seconds=${ROTA_LEASE_SECONDS:-30}
wait_seconds=${ROTA_WAIT_SECONDS:-20}
jobs_left=${ROTA_JOBS:--1} # stop after this many; below 0: never

is_stopping=
trap 'is_stopping=yes' INT TERM

errors=$(mktemp)
trap 'rm -f "$errors"' EXIT

# ask PATH BODY: prints the answer, or nothing after an error.
ask() {
    printf '%s' "$2" | curl --silent --show-error --fail-with-body --max-time 60 \
        --header "Authorization: Bearer $token" --header 'Content-Type: application/json' \
        --data-binary @- "$ROTA_URL/api/v1/$1"
}

lease() {
    ask leases "$(jq -nc --arg worker "$worker" --arg queue "$queue" \
        --argjson lease "$lease_seconds" --argjson wait "$wait_seconds" \
        '{worker: $worker, queues: [$queue], lease_seconds: $lease, wait_seconds: $wait}')"
}

# settle OUTCOME [MORE]: adds the JSON object MORE to the outcome.
settle() {
    ask leases/settle "$(jq -nc --arg worker "$worker" --arg id "$job_id" \
        --argjson lease_token "$lease_token" --arg outcome "$1" --argjson more "${2:-{\}}" \
        '{worker: $worker, outcomes: [{job_id: $id, token: $lease_token, outcome: $outcome} + $more]}')" \
        | jq -r '.items[] | if .is_stale then "job \(.job_id): the lease was lost, nothing is written"
            else "job \(.job_id): \(.job.status)" end'
}

# Extends the lease while the command runs; ends the command when the lease is lost.
keep_alive() {
    while sleep $((lease_seconds / 3 + 1)); do
        lost=$(ask leases/extend "$(jq -nc --arg worker "$worker" --arg id "$job_id" \
            --argjson lease_token "$lease_token" --argjson lease "$lease_seconds" \
            '{worker: $worker, leases: [{job_id: $id, token: $lease_token}], lease_seconds: $lease}')" \
            | jq '.lost | length')
        if [ "${lost:-0}" != 0 ]; then
            kill "$1" 2>/dev/null
            return
        fi
    done
}

run() {
    printf '%s' "$1" | jq -c '.payload' | $command 2>"$errors" &
    running=$!
    keep_alive "$running" >/dev/null 2>&1 &
    heart=$!
    while :; do # a signal ends the wait, but not the command
        wait "$running"
        status=$?
        kill -0 "$running" 2>/dev/null || break
    done
    kill "$heart" 2>/dev/null
    case $status in
        0) settle succeeded ;;
        75) settle snoozed '{"seconds": 60}' ;;
        *) settle failed "$(jq -nc --arg error "exit status $status: $(tail -c 5000 "$errors")" \
            '{error: $error}')" ;;
    esac
}

while [ -z "$is_stopping" ] && [ "$jobs_left" -ne 0 ]; do
    if ! answer=$(lease); then
        echo "the service did not answer well: $answer" >&2
        sleep 2
        continue
    fi
    job=$(printf '%s' "$answer" | jq -c '.items[0] // empty')
    [ -z "$job" ] && continue
    job_id=$(printf '%s' "$job" | jq -r '.id')
    lease_token=$(printf '%s' "$job" | jq '.lease.token')
    if [ -n "$is_stopping" ]; then
        settle handed_back
    else
        run "$job"
    fi
    jobs_left=$((jobs_left - 1))
done
