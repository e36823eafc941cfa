#!/bin/sh
# Debian's MariaDB, where it may be installed; without it the tests of its store are skipped, and say so.
if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then
    echo "There is no MariaDB here, and it cannot be installed: the tests of its store will be skipped." >&2
    exit 0
fi
# The tests start servers of their own: the package must not start one, whatever the machine's policy is.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' > "$policy" && chmod +x "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
{ apt-get update -qq && apt-get install -y -qq --no-install-recommends mariadb-server; } > /dev/null ||
    echo "MariaDB could not be installed: the tests of its store will be skipped." >&2
