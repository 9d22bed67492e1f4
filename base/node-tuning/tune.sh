#!/bin/sh
# Sets this node as sysctl.conf beside it and its variables say, and again every five minutes. The pod is ready while
# all of it holds.
#
#   HUGEPAGES_2MI          pages of 2 MiB to keep; the kubelet offers them to pods from its next start on
#   TRANSPARENT_HUGEPAGES  always, madvise or never
#   CPU_GOVERNOR           for every CPU that lets the system choose one
#   MEMLOCK                LimitMEMLOCK for containerd, in force from its next start on
#   NICS                   interfaces that get NIC_MTU and NIC_TXQUEUELEN
#
# What is empty is left alone. "tune.sh once" sets all of it one time and ends with 1 if something does not hold.
set -u
here=${0%/*}
host=${HOST:-/host}
ready=${READY:-/run/node-tuning/ready}

fails() {
    echo "node-tuning: $*" >&2
    failed=yes
}

# words FILE: its content with one blank between words
words() {
    set -f
    set -- $(cat "$1" 2>/dev/null)
    set +f
    echo "$*"
}

# put FILE VALUE NAME
put() {
    [ -e "$1" ] || { fails "this kernel has no $3"; return; }
    [ "$(words "$1")" = "$2" ] && return
    { echo "$2" >"$1"; } 2>/dev/null
    [ "$(words "$1")" = "$2" ] || fails "$3 is \"$(words "$1")\", not \"$2\""
}

set_sysctls() {
    while IFS='=' read -r key value; do
        key=$(echo $key) value=$(echo $value)
        case $key in '' | '#'*) continue ;; esac
        put "$host/proc/sys/$(echo "$key" | tr . /)" "$value" "$key"
    done <"$here/sysctl.conf"
}

set_hugepages() {
    [ "${HUGEPAGES_2MI-}" ] || return
    put "$host/mm/hugepages/hugepages-2048kB/nr_hugepages" "$HUGEPAGES_2MI" "number of 2 MiB pages"
}

set_transparent_hugepages() {
    [ "${TRANSPARENT_HUGEPAGES-}" ] || return
    file=$host/mm/transparent_hugepage/enabled
    case $(words "$file") in *"[$TRANSPARENT_HUGEPAGES]"*) return ;; esac
    { echo "$TRANSPARENT_HUGEPAGES" >"$file"; } 2>/dev/null
    case $(words "$file") in
    *"[$TRANSPARENT_HUGEPAGES]"*) ;;
    *) fails "transparent huge pages are \"$(words "$file")\", not $TRANSPARENT_HUGEPAGES" ;;
    esac
}

set_governor() {
    [ "${CPU_GOVERNOR-}" ] || return
    for file in "$host"/cpu/cpu[0-9]*/cpufreq/scaling_governor; do
        [ -e "$file" ] || continue
        put "$file" "$CPU_GOVERNOR" "governor of ${file#"$host"/cpu/}"
    done
}

set_memlock() {
    [ "${MEMLOCK-}" ] || return
    file=$host/containerd.service.d/50-memlock.conf
    [ "$(words "$file")" = "[Service] LimitMEMLOCK=$MEMLOCK" ] ||
        { printf '[Service]\nLimitMEMLOCK=%s\n' "$MEMLOCK" >"$file"; } 2>/dev/null
    [ "$(words "$file")" = "[Service] LimitMEMLOCK=$MEMLOCK" ] || fails "$file cannot be written"
    # What this container may pin is what a trainer's may.
    [ "$MEMLOCK" != infinity ] || [ "$(ulimit -l)" = unlimited ] ||
        fails "containers may pin $(ulimit -l) KiB until containerd starts again: drain the node and restart it"
}

set_nics() {
    for nic in ${NICS-}; do
        net=/sys/class/net/$nic
        [ -e "$net" ] || { fails "there is no interface $nic"; continue; }
        set_link "$nic" mtu "${NIC_MTU-}" "$net/mtu"
        set_link "$nic" txqueuelen "${NIC_TXQUEUELEN-}" "$net/tx_queue_len"
    done
}

# set_link NIC SETTING VALUE FILE
set_link() {
    [ "$3" ] || return
    [ "$(words "$4")" = "$3" ] && return
    ip link set dev "$1" "$2" "$3" 2>/dev/null
    [ "$(words "$4")" = "$3" ] || fails "$2 of $1 is $(words "$4"), not $3"
}

trap 'exit 0' TERM INT
while :; do
    failed=
    set_sysctls
    set_hugepages
    set_transparent_hugepages
    set_governor
    set_memlock
    set_nics
    if [ "$failed" ]; then rm -f "$ready"; else : >"$ready"; fi
    [ "${1-}" = once ] && { [ -z "$failed" ]; exit; }
    sleep 300 &
    wait $!
done
