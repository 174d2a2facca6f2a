# SPDX-License-Identifier: GPL-2.0-or-later
# Runs in a guest, in the run's folder: the commands of `script` on the device dut0, a flood of packets through it, and
# what is left afterwards. stress.py, which starts it, writes `settings` and judges what it leaves behind.
. ./settings
export TC_LIB_DIR="$PWD"
flooding=no

fault() { echo "$*" >>faults; }

# One line of the script: tc, ip, ethtool or sleep with their arguments; after "!" it must fail.
perform() {
    expected=0
    if [ "$1" = "!" ]; then
        expected=1
        shift
    fi
    case "$1" in
    tc) shift && "$TC" "$@" >>said 2>&1 ;;
    ip) shift && "$IP" "$@" >>said 2>&1 ;;
    ethtool) shift && "$ETHTOOL" "$@" >>said 2>&1 ;;
    sleep) $BOX sleep "$2" ;;
    *) fault "not known: $*" ;;
    esac
    code=$?
    [ $code -ne 0 ] && code=1
    [ $code -eq $expected ] || fault "exit code $code: $*"
}

pktgen() { echo "$2" >"/proc/net/pktgen/$1" || fault "pktgen: $2"; }

# Every CPU floods, with FLOWS flows of packets of different sizes, through the root discipline as programs do. One TCP
# connection sends packets of up to 64 KiB, as far as the device's offloads let it, and tc shows everything all the time.
flood_on() {
    [ $flooding = no ] || return 0
    for cpu in $CPUS; do
        pktgen "kpktgend_$cpu" "rem_device_all"
        pktgen "kpktgend_$cpu" "add_device dut0@$cpu"
        for word in "count 0" "xmit_mode queue_xmit" "delay $DELAY_NS" "min_pkt_size 60" "max_pkt_size 1514" \
            "dst 10.9.0.2" "dst_mac 02:00:00:00:00:99" "udp_src_min 1000" "udp_src_max $((1000 + FLOWS))" \
            "flag UDPSRC_RND" "flag TXSIZE_RND" "flag NO_TIMESTAMP"; do
            echo "$word" >"/proc/net/pktgen/dut0@$cpu" 2>/dev/null || echo "pktgen has no: $word" >>said
        done
    done
    $BOX nc 10.9.0.2 9 </dev/zero >/dev/null 2>>said &
    sender=$!
    echo start >/proc/net/pktgen/pgctrl &
    flood=$!
    while :; do
        "$TC" -s qdisc show dev dut0 && "$TC" -s class show dev dut0 && $BOX sleep 0.2
    done >/dev/null 2>&1 &
    watcher=$!
    flooding=yes
}

flood_off() {
    [ $flooding = yes ] || return 0
    kill $sender $watcher
    echo stop >/proc/net/pktgen/pgctrl
    wait $flood $sender $watcher
    $BOX grep -h "pkts-sofar" /proc/net/pktgen/dut0@* >>flood
    for cpu in $CPUS; do pktgen "kpktgend_$cpu" "rem_device_all"; done
    flooding=no
}

queued() {
    "$TC" -s qdisc show dev dut0 | $BOX grep backlog | $BOX grep -qv "backlog 0b 0p"
}

# Whether TCP still has something to send (states 1 to 5).
sending() {
    $BOX grep -q ":0009 0[1-5]" /proc/net/tcp
}

# Until nothing is queued any more, at most DRAIN_S seconds.
drain() {
    left=$DRAIN_S
    while [ "$left" -gt 0 ] && { sending || queued; }; do
        $BOX sleep 1
        left=$((left - 1))
    done
    "$TC" -s qdisc show dev dut0 >drained
    "$TC" -s -j qdisc show dev dut0 >drained.json 2>/dev/null
}

for module in $LOADED; do
    # shellcheck disable=SC2086 # words on purpose
    $BOX insmod "./$module.ko" $PARAMETERS || fault "$module can't be loaded"
done
"$IP" link add dut0 numtxqueues "$QUEUES" type veth peer name dut1 || fault "no veth pair"
"$IP" link set dut0 up txqueuelen 1000
"$IP" addr add 10.9.0.1/24 dev dut0
# Little waits in TCP's sockets when the sender is killed.
echo "4096 65536 262144" >/proc/sys/net/ipv4/tcp_wmem
# The host at the other end, in a network of its own.
export IP BOX
# shellcheck disable=SC2016 # the other shell's variables
$BOX unshare -n $BOX sh -c '
    echo >there
    until "$IP" link set dut1 up; do $BOX sleep 0.1; done
    "$IP" addr add 10.9.0.2/24 dev dut1
    exec $BOX nc -ll -p 9 -e $BOX dd of=/dev/null' 2>>said &
host=$!
until [ -e there ]; do $BOX sleep 0.1; done
"$IP" link set dut1 netns $host || fault "no host at the other end"
while read -r line; do
    case "$line" in
    "" | "#"*) ;;
    flood) flood_on ;;
    calm) flood_off ;;
    drain) flood_off && drain ;;
    *)
        # shellcheck disable=SC2086 # words on purpose
        perform $line
        ;;
    esac
done <script
flood_off
[ -e drained ] || drain
"$TC" qdisc del dev dut0 root 2>>said
$BOX grep "^Tcp:" /proc/net/snmp >tcp
"$IP" link del dut0
kill $host
for module in $UNLOADED; do $BOX rmmod "$module" || fault "$module can't be unloaded"; done
$BOX sleep 1
[ ! -e /sys/kernel/debug/kmemleak ] || { echo scan && $BOX sleep 6 && echo scan; } >/sys/kernel/debug/kmemleak
[ ! -e /sys/kernel/debug/kmemleak ] || $BOX cat /sys/kernel/debug/kmemleak >leaks
$BOX dmesg >dmesg
echo '{"ok": true}' >ended.json
