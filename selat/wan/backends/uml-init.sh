#!/bin/sh
# First process of the router's kernel. $UML_OUT: directory shared with the machine; $UML_DEVICES: how many sites.
# Bridges vec1..vecN, then runs every cmd.N (lines for `tc -batch`) that appears and answers with done.N.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs tmpfs /run
mkdir /run/host
mount -t hostfs none /run/host -o "$UML_OUT"
mount -t tmpfs tmpfs /dev
mknod -m 666 /dev/null c 1 3
mount -t tmpfs tmpfs /tmp

load() { # a module and what it needs, those first
    modules=/usr/lib/uml/modules/$(uname -r)
    for file in $(grep "/$1.ko:" "$modules/modules.dep" | tr -d : | tr ' ' '\n' | tac); do
        busybox insmod "$modules/$file" 2>/dev/null
    done
}
for module in bridge sch_netem sch_htb cls_u32; do load $module; done

ip link set lo up
ip link add br0 type bridge
ip link set br0 up
number=1
while [ "$number" -le "$UML_DEVICES" ]; do
    ip link set "vec$number" up || echo "vec$number does not come up" > /run/host/failed
    ip link set "vec$number" master br0
    number=$((number + 1))
done
echo up > /run/host/ready.new && mv /run/host/ready.new /run/host/ready

# A signal to the kernel's process ends it.
while :; do
    for command in /run/host/cmd.*; do
        [ -e "$command" ] || continue
        answer=/run/host/done.${command##*.}
        tc -batch "$command" > /tmp/said 2>&1
        { echo $?; cat /tmp/said; } > "$answer.new"
        rm "$command"
        mv "$answer.new" "$answer"
    done
    sleep 0.1
done
