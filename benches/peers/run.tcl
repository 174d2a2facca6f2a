# A benchmark for ns-2: ns run.tcl RATE_BIT DELAY_MS FLOWS SECONDS LIMIT STARTS_S CC IW
# Two nodes and a link between them, which is as cheap as it can be made; prints how many packets were acknowledged.
foreach {rate delay flows seconds limit starts cc iw} $argv break
remove-all-packet-headers
add-packet-header IP TCP Flags
set ns [new Simulator]
set left [$ns node]
set right [$ns node]
$ns duplex-link $left $right $rate [expr $delay / 2.0]ms DropTail
$ns queue-limit $left $right $limit
$ns queue-limit $right $left $limit
set tcps {}
for {set i 0} {$i < $flows} {incr i} {
    set tcp [new Agent/TCP/Linux]
    $tcp set timestamps_ true
    # 1500 bytes on the link: 40 of them are added.
    $tcp set packetSize_ 1460
    $tcp set window_ 10000000
    $tcp set windowInit_ $iw
    set sink [new Agent/TCPSink/Sack1/DelAck]
    $ns attach-agent $left $tcp
    $ns attach-agent $right $sink
    $ns connect $tcp $sink
    $ns at 0 "$tcp select_ca $cc"
    set ftp [new Application/FTP]
    $ftp attach-agent $tcp
    $ns at [expr $starts * ($i + 0.5) / $flows] "$ftp start"
    lappend tcps $tcp
}
proc finish {} {
    global tcps
    set packets 0
    foreach tcp $tcps { incr packets [expr int([$tcp set ack_]) + 1] }
    puts "{\"packets\": $packets}"
    exit 0
}
$ns at $seconds finish
$ns run
