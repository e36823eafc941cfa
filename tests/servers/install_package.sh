#!/bin/sh
# A server's package of Debian, where it may be installed: install_package.sh PACKAGE NAME. Without it the tests that
# need it are skipped, and say so.
package=$1 name=$2
if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then
    echo "There is no $name here, and it cannot be installed: the tests that need it will be skipped." >&2
    exit 0
fi
# The tests start servers of their own: the package must not start one, whatever the machine's policy is.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' > "$policy" && chmod +x "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
install() {
    apt-get install -y -qq --no-install-recommends "$package" > /dev/null
}
install 2> /dev/null || { apt-get update -qq > /dev/null && install; } || # the list of packages may be missing or old
    echo "$name could not be installed: the tests that need it will be skipped." >&2
