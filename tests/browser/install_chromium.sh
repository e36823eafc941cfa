#!/bin/sh
# Debian's Chromium, where it may be installed; without it the browser tests are skipped, and say so.
if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then
    echo "There is no chromium here, and it cannot be installed: the browser tests will be skipped." >&2
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
{ apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core; } > /dev/null ||
    echo "Chromium could not be installed: the browser tests will be skipped." >&2
