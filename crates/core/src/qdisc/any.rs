//! One enum for all disciplines: static dispatch in the hot path (rule 12).

use super::blue::Blue;
use super::cake::Cake;
use super::ccaq::Ccaq;
use super::choke::Choke;
use super::codel::{self, Codel};
use super::dualpi2::DualPi2;
use super::fifo::Fifo;
use super::fq::Fq;
use super::fq_codel::{self, FqCodel, FqCodelNs2};
use super::fq_pie::FqPie;
use super::htb::Htb;
use super::pie::Pie;
use super::prio::Prio;
use super::red::{self, Red, RedLinux};
use super::sfb::Sfb;
use super::sfq::{self, Sfq, SfqNs2};
use super::tbf::{Tbf, TbfChild};
use super::tc::Spec;
use super::{Child, Context, Drops, Given, Qdisc, Stats, Unchangeable};
use crate::cache::Cache;
use crate::packet::Packet;
use crate::units::Time;

macro_rules! any_qdisc {
    ($($(#[$meta:meta])* $variant:ident($type:ty): $($spec:ident),+;)+) => {
        /// Any discipline. A further one is one more line in the list below, with the variant of [`Spec`] that has its
        /// parameters, and one in [`Spec::build`].
        #[derive(Clone, Debug)]
        pub enum AnyQdisc<P> {
            $($(#[$meta])* $variant($type),)+
        }

        impl<P: Packet + Copy + Default> Qdisc<P> for AnyQdisc<P> {
            type Params = Spec;

            #[inline(always)]
            fn enqueue(&mut self, now: Time, packet: P, drops: &mut impl Drops<P>) {
                match self { $(AnyQdisc::$variant(q) => q.enqueue(now, packet, drops),)+ }
            }

            #[inline(always)]
            fn admit(&mut self, now: Time, packet: P, may_pass: bool, drops: &mut impl Drops<P>) -> bool {
                match self { $(AnyQdisc::$variant(q) => q.admit(now, packet, may_pass, drops),)+ }
            }

            fn requeued(&mut self, is: bool) -> bool {
                match self { $(AnyQdisc::$variant(q) => q.requeued(is),)+ }
            }

            #[inline(always)]
            fn enqueue_all(&mut self, now: Time, packets: impl Iterator<Item = P>, drops: &mut impl Drops<P>) {
                match self { $(AnyQdisc::$variant(q) => q.enqueue_all(now, packets, drops),)+ }
            }

            #[inline(always)]
            fn dequeue(&mut self, now: Time, drops: &mut impl Drops<P>) -> Option<P> {
                match self { $(AnyQdisc::$variant(q) => q.dequeue(now, drops),)+ }
            }

            #[inline(always)]
            fn dequeue_into(&mut self, now: Time, packet: &mut P, drops: &mut impl Drops<P>) -> bool {
                match self { $(AnyQdisc::$variant(q) => q.dequeue_into(now, packet, drops),)+ }
            }

            fn change(&mut self, now: Time, spec: &Spec, drops: &mut impl Drops<P>) -> Result<(), Unchangeable> {
                match (self, spec) {
                    $($((AnyQdisc::$variant(q), Spec::$spec(params)) => q.change(now, &params.clone().into(), drops),)+)+
                    _ => Err(Unchangeable),
                }
            }

            fn counts_change(&self) -> Given {
                match self { $(AnyQdisc::$variant(q) => q.counts_change(),)+ }
            }

            #[inline]
            fn next_event(&self) -> Time {
                match self { $(AnyQdisc::$variant(q) => q.next_event(),)+ }
            }

            #[inline(always)]
            fn packets(&self) -> usize {
                match self { $(AnyQdisc::$variant(q) => q.packets(),)+ }
            }

            #[inline]
            fn backlog(&self) -> u64 {
                match self { $(AnyQdisc::$variant(q) => q.backlog(),)+ }
            }

            #[inline(always)]
            fn is_full(&self, mtu: u32) -> bool {
                match self { $(AnyQdisc::$variant(q) => q.is_full(mtu),)+ }
            }

            #[inline]
            fn bufferless(&self) -> bool {
                match self { $(AnyQdisc::$variant(q) => q.bufferless(),)+ }
            }

            fn prefetch(&self, packets: usize, cache: &impl Cache, see: impl FnMut(&P)) {
                match self { $(AnyQdisc::$variant(q) => q.prefetch(packets, cache, see),)+ }
            }

            fn stats(&self) -> Stats {
                match self { $(AnyQdisc::$variant(q) => q.stats(),)+ }
            }

            fn overlimits(&self) -> u64 {
                match self { $(AnyQdisc::$variant(q) => q.overlimits(),)+ }
            }

            fn classes(&self) -> Option<Stats> {
                match self { $(AnyQdisc::$variant(q) => q.classes(),)+ }
            }

            fn child(&self) -> Option<Child> {
                match self { $(AnyQdisc::$variant(q) => q.child(),)+ }
            }
        }
    };
}

any_qdisc! {
    /// noqueue, pfifo, bfifo, pfifo_head_drop.
    Fifo(Fifo<P>): Pfifo, Bfifo, PfifoHeadDrop;
    /// CoDel as Linux 6.1 to 6.12 has it.
    Codel(Codel<P, codel::Linux>): Codel;
    /// CoDel as Linux 7.x has it.
    Codel7(Codel<P, codel::Linux7>): Codel;
    /// CoDel as in RFC 8289.
    CodelRfc8289(Codel<P, codel::Rfc8289>): Codel;
    /// CoDel as in ns-2.
    CodelNs2(Codel<P, codel::Ns2<true>>): Codel;
    /// fq_codel, each queue under CoDel as Linux 6.1 to 6.12 has it.
    FqCodel(FqCodel<P, codel::Linux>): FqCodel;
    /// fq_codel, each queue under CoDel as Linux 7.x has it.
    FqCodel7(FqCodel<P, codel::Linux7>): FqCodel;
    /// fq_codel as in RFC 8290.
    FqCodelRfc8290(FqCodel<P, codel::Rfc8289>): FqCodel;
    /// ns-2's sfqcodel.
    FqCodelNs2(FqCodelNs2<P>): FqCodel;
    /// fq.
    Fq(Fq<P>): Fq;
    /// red as ns-2 has it.
    Red(Red<P>): Red;
    /// red as Linux has it.
    RedLinux(RedLinux<P>): Red;
    /// pie.
    Pie(Pie<P>): Pie;
    /// fq_pie.
    FqPie(FqPie<P>): FqPie;
    /// dualpi2.
    DualPi2(DualPi2<P>): DualPi2;
    /// ccaq.
    Ccaq(Ccaq<P>): Ccaq;
    /// sfq as Linux has it.
    Sfq(Sfq<P>): Sfq;
    /// sfq as ns-2 has it.
    SfqNs2(SfqNs2<P>): Sfq;
    /// prio.
    Prio(Prio<P>): Prio;
    /// tbf.
    Tbf(Tbf<P, AnyQdisc<P>>): Tbf;
    /// htb.
    Htb(Htb<AnyQdisc<P>>): Htb;
    /// choke.
    Choke(Choke<P>): Choke;
    /// sfb.
    Sfb(Sfb<P>): Sfb;
    /// blue.
    Blue(Blue<P>): Blue;
    /// cake.
    Cake(Cake<P>): Cake;
}

impl<P: Packet + Copy + Default> TbfChild<P> for AnyQdisc<P> {
    fn peek_head(&self) -> Option<Option<&P>> {
        Some(match self {
            AnyQdisc::Fifo(fifo) => fifo.front(),
            AnyQdisc::Prio(prio) => prio.front(),
            AnyQdisc::RedLinux(red) => red.front(),
            AnyQdisc::Choke(choke) => choke.front(),
            AnyQdisc::Sfb(sfb) => sfb.front(),
            _ => return None,
        })
    }

    fn set_fifo_limit(&mut self, limit: u32) {
        if let AnyQdisc::Fifo(fifo) = self {
            fifo.set_limit(limit);
        }
    }
}

impl Spec {
    /// The discipline, empty, before a link of this kind. Panics if only Linux has it.
    pub fn build<P: Packet + Copy + Default>(&self, context: &Context) -> AnyQdisc<P> {
        match self {
            Spec::Noqueue(params) => AnyQdisc::Fifo(Fifo::noqueue(params, context)),
            Spec::Pfifo(params) => AnyQdisc::Fifo(Fifo::pfifo(params, context)),
            Spec::Bfifo(params) => AnyQdisc::Fifo(Fifo::bfifo(params, context)),
            Spec::PfifoHeadDrop(params) => AnyQdisc::Fifo(Fifo::pfifo_head_drop(params, context)),
            Spec::Codel(params) => match params.variant {
                codel::Variant::Linux => AnyQdisc::Codel(Codel::new(params, context)),
                codel::Variant::Linux7 => AnyQdisc::Codel7(Codel::new(params, context)),
                codel::Variant::Rfc8289 => AnyQdisc::CodelRfc8289(Codel::new(params, context)),
                codel::Variant::Ns2 => AnyQdisc::CodelNs2(Codel::new(params, context)),
            },
            Spec::FqCodel(params) => match params.variant {
                fq_codel::Variant::Linux => AnyQdisc::FqCodel(FqCodel::new(params, context)),
                fq_codel::Variant::Linux7 => AnyQdisc::FqCodel7(FqCodel::new(params, context)),
                fq_codel::Variant::Rfc8290 => AnyQdisc::FqCodelRfc8290(FqCodel::new(params, context)),
                fq_codel::Variant::Ns2 => AnyQdisc::FqCodelNs2(FqCodelNs2::new(params, context)),
            },
            Spec::Fq(params) => AnyQdisc::Fq(Fq::new(params, context)),
            Spec::Red(params) => match params.variant {
                red::Variant::Linux => AnyQdisc::RedLinux(RedLinux::new(params, context)),
                red::Variant::Ns2 => AnyQdisc::Red(Red::new(params, context)),
            },
            Spec::Pie(params) => AnyQdisc::Pie(Pie::new(params, context)),
            Spec::FqPie(params) => AnyQdisc::FqPie(FqPie::new(params, context)),
            Spec::DualPi2(params) => AnyQdisc::DualPi2(DualPi2::new(params, context)),
            Spec::Ccaq(params) => AnyQdisc::Ccaq(Ccaq::new(params, context)),
            Spec::Sfq(params) => match params.variant {
                sfq::Variant::Linux => AnyQdisc::Sfq(Sfq::new(params, context)),
                sfq::Variant::Ns2 => AnyQdisc::SfqNs2(SfqNs2::new(params, context)),
            },
            Spec::Prio(params) => AnyQdisc::Prio(Prio::new(params, context)),
            Spec::Tbf(params) => {
                let fifo = Spec::Bfifo(params.fifo());
                AnyQdisc::Tbf(Tbf::new(params, params.child.as_deref().unwrap_or(&fifo).build(context)))
            }
            Spec::Htb(params) => {
                let fifo = Spec::Pfifo(params.fifo());
                AnyQdisc::Htb(Htb::new(params, params.child.as_deref().unwrap_or(&fifo).build(context)))
            }
            Spec::Choke(params) => AnyQdisc::Choke(Choke::new(params, context)),
            Spec::Sfb(params) => AnyQdisc::Sfb(Sfb::new(params, context)),
            Spec::Blue(params) => AnyQdisc::Blue(Blue::new(params, context)),
            Spec::Cake(params) => AnyQdisc::Cake(Cake::new(params, context)),
            Spec::Linux(_) => panic!("bug: a world that has no {} did not refuse it", self.kind()),
        }
    }
}
