#!/bin/sh
# Debian's Chromium without a window, where it may be installed, or else with one. Without either the
# browser tests are skipped, and say so.
install() {
    apt-get install -y -qq --no-install-recommends "$1" fonts-dejavu-core > /dev/null 2>&1
}
export DEBIAN_FRONTEND=noninteractive
if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null && apt-get update -qq > /dev/null; then
    install chromium-headless-shell && exit
fi
command -v chromium > /dev/null || install chromium ||
    echo "Chromium is missing and could not be installed: the browser tests will be skipped." >&2
