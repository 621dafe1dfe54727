#!/bin/sh
# enter.sh HELD CGROUP NAMESPACE PROGRAM [ARGUMENT...]: becomes the program, inside a site.
# Waits as long as the file HELD is there (the site is killed); joins CGROUP unless it is empty. The control group comes
# first: in the namespace, /sys is another one. HELD is looked at once more inside, where whoever kills the site sees us.
held=$1 cgroup=$2 namespace=$3
shift 3
PATH=$PATH:/usr/sbin:/sbin
while [ -e "$held" ]; do sleep 0.2; done
[ -z "$cgroup" ] || echo $$ > "$cgroup/cgroup.procs" || exit 1
exec ip netns exec "$namespace" sh -c '[ ! -e "$0" ] || exit 1; exec "$@"' "$held" "$@"
