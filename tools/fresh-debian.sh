#!/bin/bash
# Tests that the README's commands work on a bare Debian 12: installs it in a folder (by debootstrap; no compiler, no
# sudo), clones this checkout into it and runs ./dev run and ./dev test there. Needs root, debootstrap and a Debian
# mirror; takes some minutes and about 1 GiB.
#
#     tools/fresh-debian.sh /var/tmp/fresh [command...]
#
# If a command is given, it runs in the clone instead of the two. A folder that already contains such a system is used
# again, with a new clone. Mirror, proxy and keys are those of this machine's apt.
set -euo pipefail

die() { printf 'fresh-debian: %s\n' "$*" >&2; exit 1; }
[ $# -ge 1 ] || { sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ "$(id -u)" -eq 0 ] || die "needs root, to make a root of its own and change into it"
command -v debootstrap >/dev/null || die "needs debootstrap: apt-get install debootstrap"
mkdir -p "$1"
root=$(realpath "$1")
shift
top=$(cd "$(dirname "$0")/.." && pwd)

if [ ! -e "$root/etc/debian_version" ]; then
    # If this machine's apt has no mirror, debootstrap uses its default.
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m1 'debian/*$' || :)
    debootstrap --variant=minbase bookworm "$root" ${mirror:+"$mirror"}
    # Images of Debian have no package lists, so remove them.
    rm -rf "$root"/var/lib/apt/lists/*
fi

# The new system needs the same settings of apt to reach the mirror.
rm -f "$root/etc/apt/sources.list"
cp -a /etc/apt/sources.list* "$root/etc/apt/" 2>/dev/null || :
rm -f "$root"/etc/apt/sources.list.d/*disabled*
for file in /etc/apt/apt.conf /etc/apt/apt.conf.d/*; do
    if grep -qis '^ *acquire' "$file"; then cp "$file" "$root/etc/apt/apt.conf.d/"; fi
done
[ ! -e /etc/apt/keyrings ] || cp -a /etc/apt/keyrings "$root/etc/apt/"
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
cp /etc/hosts "$root/etc/hosts"

rm -rf "$root/root/leat"
git clone -q "$top" "$root/root/leat"

leave() {
    umount "$root/dev/shm" "$root/dev" "$root/proc" 2>/dev/null || :
}
trap leave EXIT
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero full random urandom tty; do
    touch "$root/dev/$device"
    cp -a --remove-destination "/dev/$device" "$root/dev/$device"
done
ln -s /proc/self/fd "$root/dev/fd"
mkdir "$root/dev/shm"
mount -t tmpfs tmpfs "$root/dev/shm"

inside() {
    echo "== $*"
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
        ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
        chroot "$root" sh -c 'cd /root/leat && exec "$@"' sh "$@" </dev/null
}

if [ $# -gt 0 ]; then
    inside "$@"
else
    inside sh -c '! command -v cc make sudo' || die "$root has a compiler already: give a folder that does not exist yet"
    inside ./dev run
    inside ./dev test
fi
