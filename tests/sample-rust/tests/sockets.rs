//! The test's own code behind a link.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use sojourn_link::{Change, Host, Link};

#[test]
fn a_download_takes_as_long_as_the_link_lets_it() -> io::Result<()> {
    let link = Link::new("10mbit", "50ms", "fq_codel")?;
    let listener = link.listen(Host::Server, 7000)?;
    let server = thread::spawn(move || sample::serve(&listener, 500_000));
    let begin = Instant::now();
    assert_eq!(sample::ask(link.connect(7000)?)?, 500_000);
    assert!(begin.elapsed() > Duration::from_millis(400), "500 kB at 10 Mbit/s");
    server.join().expect("no panic")?;
    Ok(())
}

#[test]
fn a_link_counts_its_packets_and_says_how_true_it_was() -> io::Result<()> {
    let link = Link::new("100mbit", "10ms", "fq_codel")?;
    let listener = link.listen(Host::Server, 7000)?;
    let server = thread::spawn(move || sample::serve(&listener, 100_000));
    sample::ask(link.connect(7000)?)?;
    server.join().expect("no panic")?;
    assert!(link.stats()?["links"][0]["bytes"].as_u64() > Some(100_000));
    let ended = link.close()?;
    assert_eq!(ended.truth.valid, ended.truth.reasons.is_empty());
    assert!(ended.truth.measures["frames_out"].as_u64() > Some(100));
    assert!(ended.state["links"][0]["packets"].as_u64() > Some(70));
    Ok(())
}

#[test]
fn datagrams_and_a_change_of_the_delay() -> io::Result<()> {
    let link = Link::new("100mbit", "10ms", "pfifo")?;
    let (client, server) = (link.bind_udp(Host::Client, 0)?, link.bind_udp(Host::Server, 7000)?);
    client.connect(server.local_addr()?)?;
    server.connect(client.local_addr()?)?;
    let round = || {
        let (begin, mut bytes) = (Instant::now(), [0; 9]);
        client.send(b"ping")?;
        let sent = server.recv(&mut bytes)?;
        server.send(&bytes[..sent])?;
        assert_eq!(client.recv(&mut bytes)?, 4);
        io::Result::Ok(begin.elapsed())
    };
    assert!(round()? >= Duration::from_millis(10));
    link.set(&Change::delay("105ms"))?;
    link.set(&Change::qdisc("codel target 15ms").of("link.reverse"))?;
    assert!(round()? >= Duration::from_millis(105));
    assert!(link.stats()?["links"][1]["qdisc"].as_str().is_some_and(|line| line.contains("target 15ms")));
    let refused = |change| link.set(&change).err().map(|error| error.to_string()).unwrap_or_default();
    assert_eq!(refused(Change::rate("fast")), "rate = fast: expected a positive rate such as 10mbit");
    assert_eq!(
        refused(Change::delay("1ms").of("lnk")),
        "lnk: expected one of link, link.reverse; did you mean \"link\"?"
    );
    assert!(refused(Change::qdisc("kodel")).contains("did you mean \"codel\""));
    Ok(())
}

#[test]
fn a_link_outlives_the_thread_that_has_made_it() -> io::Result<()> {
    let link = thread::spawn(|| Link::new("100mbit", "10ms", "pfifo")).join().expect("no panic")?;
    thread::sleep(Duration::from_millis(100));
    link.stats()?;
    Ok(())
}

#[test]
fn a_link_is_up_soon() -> io::Result<()> {
    let mut times = Vec::new();
    for _ in 0..10 {
        let begin = Instant::now();
        let link = Link::new("10mbit", "50ms", "fq_codel")?;
        times.push(begin.elapsed());
        assert_eq!(link.stats()?["links"].as_array().map(Vec::len), Some(2));
    }
    times.sort();
    println!("a link is up after {:?} (median of 10; {:?} to {:?})", times[5], times[0], times[9]);
    Ok(())
}
