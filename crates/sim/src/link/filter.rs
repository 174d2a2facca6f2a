//! SACK blocks for disciplines that filter ACKs (cake). Packets do not carry the blocks; the hosts keep them.

use sojourn_core::packet::{Packet as _, Segment};
use sojourn_core::qdisc::cake::AckFilter;
use sojourn_core::qdisc::tc::Spec;
use sojourn_core::qdisc::{DropReason, Drops, Qdisc};
use sojourn_core::units::Time;
use sojourn_model::scenario;

use super::Link;
use crate::ends::AckOptions;
use crate::packet::Packet;

/// Returns whether a discipline of this kind reads the SACK blocks of ACKs.
fn filters_acks(spec: &Spec) -> bool {
    match spec {
        Spec::Cake(params) => params.ack_filter != AckFilter::Off,
        Spec::Htb(params) => params.child.as_deref().is_some_and(filters_acks),
        Spec::Tbf(params) => params.child.as_deref().is_some_and(filters_acks),
        _ => false,
    }
}

/// SACK blocks of the ACKs in a link's queue, indexed by the slot in which their hosts keep them. A slot is not reused
/// before its ACK has left the link.
pub(super) struct Blocks(Vec<AckOptions>);

impl Blocks {
    /// Returns the storage for a link whose discipline reads SACK blocks, at the start or after a change; otherwise
    /// `None`.
    pub(super) fn new(link: &scenario::Link) -> Option<Box<Blocks>> {
        let mut specs = link.changes.iter().map(|(_, change)| change.spec()).chain([&link.qdisc]);
        specs.any(filters_acks).then(|| Box::new(Blocks(Vec::new())))
    }
}

/// Receives drops and looks up SACK blocks.
struct Reader<'a> {
    drops: &'a mut Vec<(Packet, DropReason)>,
    blocks: &'a Blocks,
}

impl Drops<Packet> for Reader<'_> {
    fn dropped(&mut self, packet: Packet, reason: DropReason) {
        self.drops.push((packet, reason));
    }

    fn segment(&self, packet: &Packet) -> Option<Segment> {
        let mut segment = packet.segment()?;
        if packet.has_blocks() {
            let options = self.blocks.0[packet.place() as usize];
            for (sack, block) in segment.sacks.iter_mut().zip(options.blocks()) {
                *sack = (block.start, block.end);
            }
            segment.sack_count = options.blocks().len() as u8;
            segment.pure = true;
        }
        Some(segment)
    }
}

impl Link {
    /// Returns whether the link needs the SACK blocks of arriving ACKs ([`Link::store_blocks`]).
    pub fn filters_acks(&self) -> bool {
        self.blocks.is_some()
    }

    /// Stores the SACK blocks of the ACK that arrives next.
    pub fn store_blocks(&mut self, ack: &Packet, options: &AckOptions) {
        if let Some(Blocks(places)) = self.blocks.as_deref_mut()
            && ack.has_blocks()
        {
            let place = ack.place() as usize;
            if places.len() <= place {
                places.resize(place + 1, AckOptions::NONE);
            }
            places[place] = *options;
        }
    }

    /// Offers a packet to the discipline, which may read SACK blocks. Returns whether the packet bypasses it, because it is
    /// empty.
    pub(super) fn admit_reading_blocks(&mut self, now: Time, packet: &Packet) -> bool {
        let may_bypass = self.requeued.is_none();
        match self.blocks.as_deref() {
            Some(blocks) => self.qdisc.admit(now, *packet, may_bypass, &mut Reader { drops: &mut self.drops, blocks }),
            None => self.qdisc.admit(now, *packet, may_bypass, &mut self.drops),
        }
    }
}
