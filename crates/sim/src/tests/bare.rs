//! TCP packets without data: the last ACK of a handshake, and FINs.

use sojourn_model::plan::{LoadOptions, Plan};
use sojourn_model::records::Kind;

use super::*;

/// The packets of a run, which are the same in both engines.
fn packets(text: &str) -> Vec<PacketRecord> {
    let plan = Plan::load("t.toml", text.as_bytes(), &LoadOptions::default()).expect("a sound file");
    let scenario = plan.scenario(0).expect("a sound run");
    let play = |engine| {
        run(&scenario, &Options { engine, packets: true, crowd: Some(4), ..Options::default() }).expect("it runs")
    };
    let (fast, heap) = (play(Engine::Fast), play(Engine::Heap));
    assert_eq!(fast.packets, heap.packets);
    fast.packets
}

const HOP: &str = "duration = \"3s\"\n[[hop]]\nrate = \"10mbit\"\ndelay = \"5ms\"\nqdisc = \"fq_codel\"\n\
                   reverse = { qdisc = \"pfifo limit 1000\" }\n";

/// The packets that arrived at the rightward link (0) or the leftward one (1).
fn story(packets: &[PacketRecord], link: u16) -> Vec<(Kind, u32)> {
    packets.iter().filter(|packet| packet.link == link).map(|packet| (packet.kind, packet.bytes)).collect()
}

#[test]
fn a_transfer_begins_with_the_last_ack_of_its_handshake_and_ends_with_two_fins() {
    let flow = "[[flow]]\nkind = \"download\"\nsize = 2896\ngap = \"10s\"\nrtt = \"40ms\"\n";
    let packets = packets(&format!("{HOP}{flow}"));
    let (syn, bare, full) = ((Kind::Syn, 74), (Kind::Ack, 66), (Kind::Data, 1514));
    assert_eq!(
        story(&packets, 0),
        [syn, bare, full, full, bare],
        "the last one is the sender's FIN, which acknowledges"
    );
    // An ACK of each segment, as the connection is in its beginning; the FIN; the ACK of the sender's FIN.
    assert_eq!(story(&packets, 1), [syn, bare, bare, bare, bare]);
    let came = |link, number: usize| {
        packets.iter().filter(|packet| packet.link == link).nth(number).map(|packet| packet.arrival)
    };
    assert_eq!(came(0, 1), came(0, 2), "data follow at once");
    assert_eq!(came(1, 2), came(1, 3), "the FIN follows the last ACK at once");
    assert!(packets.iter().filter(|packet| packet.kind == Kind::Ack).all(|packet| packet.seq <= 3));
}

#[test]
fn a_lasting_connection_has_no_fin() {
    let flow = "[[flow]]\nkind = \"thin\"\nsize = 100\ninterval = \"10s\"\nrtt = \"40ms\"\n";
    let packets = packets(&format!("{HOP}{flow}"));
    assert_eq!(story(&packets, 0), [(Kind::Syn, 74), (Kind::Ack, 66), (Kind::Data, 166)]);
    assert_eq!(story(&packets, 1), [(Kind::Syn, 74), (Kind::Ack, 66)]);
}

/// On the web the client receives everything and closes the connection: once, after the last response.
#[test]
fn a_client_of_the_web_closes() {
    let flow = "[[flow]]\nkind = \"web\"\nrate = 2\nrtt = \"40ms\"\n";
    let packets = packets(&format!("{HOP}{flow}"));
    let of = |connection| packets.iter().filter(move |packet| packet.connection == connection);
    // The client's half of the first connection, and the server's half.
    let client: Vec<_> = of(0).filter(|packet| packet.link == 1 && packet.kind != Kind::Data).collect();
    assert_eq!(client.iter().map(|packet| packet.kind).collect::<Vec<_>>(), [Kind::Syn, Kind::Ack]);
    let last =
        |link| of(1).filter(move |packet| packet.link == link).map(|packet| (packet.kind, packet.arrival)).next_back();
    let data = of(1).filter(|packet| packet.link == 0 && packet.kind == Kind::Data).map(|packet| packet.arrival).max();
    let (Some((Kind::Ack, fin)), Some((Kind::Ack, answer))) = (last(0), last(1)) else { panic!("it was not closed") };
    assert!(data < Some(fin) && fin < answer, "the server's FIN follows its data, and the client's ACK that");
    assert_eq!(of(1).filter(|packet| packet.link == 0 && packet.kind == Kind::Ack).count(), 1);
}

/// The end that has received everything closes the connection, once, and the last packet of the other end is its FIN.
/// Connections that carry data until the end of the run (such as the load of a test) are excluded.
#[test]
fn whatever_comes_to_an_end_is_closed_once() {
    let page = "kind = \"web\"\npage = true";
    let video = "kind = \"video\"\nchunk = \"1s\"\nbuffer = \"4s\"\nladder = [\"1mbit\"]\nstop = \"4s\"";
    for (flow, opens) in
        [("kind = \"sizes\"\nrate = 3", 1), (page, 0), (video, 0), ("kind = \"rpm\"\nconnections = 2", 0)]
    {
        let packets = packets(&format!("{}[[flow]]\n{flow}\nrtt = \"40ms\"\n", HOP.replace("3s", "8s")));
        let mut closed = 0;
        for connection in 0..=packets.iter().map(|packet| packet.connection).max().expect("packets") {
            let came = |bare| {
                let of = packets.iter().filter(move |packet| packet.connection == connection && packet.link == 0);
                of.filter(move |packet| (packet.kind == Kind::Ack) == bare).map(|packet| packet.arrival)
            };
            let sent = |packet: &&PacketRecord| packet.connection == connection && packet.kind == Kind::Data;
            let Some(last) = packets.iter().filter(sent).filter(|packet| packet.link == 0).map(|p| p.arrival).max()
            else {
                continue;
            };
            if last < Time::ZERO + Span::from_secs(7) {
                assert_eq!(came(true).count(), opens + 1, "{flow}: connection {connection}");
                assert!(came(true).max() > Some(last) && came(false).max() <= Some(last), "{flow}: {connection}");
                closed += 1;
            }
        }
        assert!(closed > 0, "{flow}");
    }
}

/// The fast engine prefetches the state that the packets of many flows need, including FINs.
#[test]
fn both_engines_end_the_connections_of_a_crowd_alike() {
    let downloads = "kind = \"download\"\nsize = 2896\ngap = \"100ms\"\nstart = \"uniform 0s..1s\"";
    for (link, flow) in [("[access]\nrate = \"1gbit\"\n", downloads), ("", "kind = \"web\"\nrate = 1")] {
        let hop = HOP.replace("10mbit", "1gbit").replace("fq_codel", "pfifo limit 1000");
        packets(&format!("{hop}{link}[[flow]]\n{flow}\ncount = 300\nrtt = \"40ms\"\n"));
    }
}

/// With every ACK policy, the FIN of the closing end is an ACK that includes a pending one, and so is the answer to a
/// FIN.
#[test]
fn a_fin_acknowledges_and_is_acknowledged_at_once() {
    let cases = ["[host]\nquickack = false", "acks = \"window 100\"", "acks = \"every\""]
        .map(|rule| [(rule, 40, 200), (rule, 600, 1900)]);
    for (rule, rtt, end) in cases.into_iter().flatten() {
        let flow = format!("[[flow]]\nkind = \"download\"\nsize = 4344\ngap = \"10s\"\nrtt = \"{rtt}ms\"\n{rule}\n");
        let packets = packets(&format!("{HOP}{flow}"));
        let last = packets.iter().rfind(|packet| packet.kind == Kind::Ack && packet.link == 1);
        let (last, end) = (last.expect("the answer to the sender's FIN"), Time::ZERO + Span::from_millis(end));
        assert!(last.seq == 4 && last.arrival < end, "{rule}: {last:?}");
        assert!(packets.iter().all(|packet| packet.kind != Kind::Retransmit), "{rule}");
        let acks = story(&packets, 1).len() - 1;
        assert_eq!(
            acks,
            if rule.contains("every") {
                5
            } else if rule.contains("window") {
                2
            } else {
                3
            },
            "{rule}"
        );
    }
}
