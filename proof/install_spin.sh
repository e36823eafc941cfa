#!/bin/sh
# Debian's spin, and gcc to compile what it writes, where they may be installed. Without them nothing is proved.
if command -v spin > /dev/null && command -v gcc > /dev/null; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends spin gcc libc6-dev; } > /dev/null && exit 0
fi
echo "NOTHING IS PROVED: spin and gcc are needed and cannot be installed here." >&2
echo "Install them, on Debian with: apt-get install spin gcc libc6-dev" >&2
exit 1
