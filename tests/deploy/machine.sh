#!/bin/sh
# A machine for a test: a clean root, processes of its own, and the network namespace in which this is started.
# It runs the start-up script FIRST-START as the cloud would at the first start, and then stays until it is killed.
#
#   machine.sh BASE SCRATCH SYSTEMCTL FIRST-START
set -eu
base=$1 scratch=$2 systemctl=$3 first=$4
root=$scratch/root

# What the machine writes is in memory, and gone with it.
mount -t tmpfs -o size=6g,mode=755 tmpfs "$scratch"
mkdir "$scratch/upper" "$scratch/work" "$root"
mount -t overlay overlay -o "lowerdir=$base,upperdir=$scratch/upper,workdir=$scratch/work" "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero full random urandom; do
    : >"$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir -m 1777 "$root/dev/shm"
ln -s /proc/self/fd "$root/dev/fd"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
# Every system has these names.
printf '127.0.0.1 localhost\n127.0.1.1 %s\n' "$(hostname)" >"$root/etc/hosts"
install -D -m 755 "$systemctl" "$root/usr/local/sbin/systemctl"
install -m 755 "$first" "$root/root/start-up"

code=0
env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
    chroot "$root" /root/start-up || code=$?
echo "start-up ended: $code"
exec sleep infinity
