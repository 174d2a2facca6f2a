//! One enum for all disciplines, which gives static dispatch in the hot path.

use super::ccaq::{self, Paper, Servo};
use super::codel::{self, Codel};
use super::external::External;
use super::fq_codel::{self, FqCodel, FqCodelNs2};
use super::htb::{self, Htb};
use super::list::list;
use super::red::{self, Red, RedLinux};
use super::sfq::{self, Sfq, SfqNs2};
use super::tbf::{self, Tbf, TbfChild};
use super::tc::Spec;
use super::{Child, Context, Drops, Given, Qdisc, Stats, Unchangeable};
use crate::cache::Cache;
use crate::packet::Packet;
use crate::units::Time;

macro_rules! any_qdisc {
    ($($(#[$meta:meta])* $spec:ident($params:ty) by $build:expr => $([$shared:ident])? $($variant:ident($type:ty)),*;)+) => {
        /// Any discipline: the types of the list in `list.rs`.
        #[derive(Debug)]
        #[expect(missing_docs, reason = "named as the types")]
        pub enum AnyQdisc<P> {
            $($($variant($type),)*)+
            External(External<P>),
        }

        $($(impl<P> From<$type> for AnyQdisc<P> {
            fn from(qdisc: $type) -> Self {
                AnyQdisc::$variant(qdisc)
            }
        })*)+

        impl Spec {
            /// Creates the discipline, empty, in front of a link. Panics if only Linux has it.
            pub fn build<P: Packet + Copy + Default>(&self, context: &Context) -> AnyQdisc<P> {
                match self {
                    $(Spec::$spec(params) => $build(params, context).into(),)+
                    Spec::External(line) => AnyQdisc::External(External::new(line, context)),
                    Spec::Linux(_) => panic!("bug: a world that has no {} did not refuse it", self.kind()),
                }
            }
        }

        impl<P: Packet + Copy + Default> Qdisc<P> for AnyQdisc<P> {
            type Params = Spec;

            #[inline(always)]
            fn enqueue(&mut self, now: Time, packet: P, drops: &mut impl Drops<P>) {
                match self { $($(AnyQdisc::$variant(q) => q.enqueue(now, packet, drops),)*)+ AnyQdisc::External(q) => q.enqueue(now, packet, drops) }
            }

            #[inline(always)]
            fn admit(&mut self, now: Time, packet: P, may_pass: bool, drops: &mut impl Drops<P>) -> bool {
                match self { $($(AnyQdisc::$variant(q) => q.admit(now, packet, may_pass, drops),)*)+ AnyQdisc::External(q) => q.admit(now, packet, may_pass, drops) }
            }

            fn requeued(&mut self, is: bool) -> bool {
                match self { $($(AnyQdisc::$variant(q) => q.requeued(is),)*)+ AnyQdisc::External(q) => q.requeued(is) }
            }

            #[inline(always)]
            fn enqueue_all(&mut self, now: Time, packets: impl Iterator<Item = P>, drops: &mut impl Drops<P>) {
                match self { $($(AnyQdisc::$variant(q) => q.enqueue_all(now, packets, drops),)*)+ AnyQdisc::External(q) => q.enqueue_all(now, packets, drops) }
            }

            #[inline(always)]
            fn dequeue(&mut self, now: Time, drops: &mut impl Drops<P>) -> Option<P> {
                match self { $($(AnyQdisc::$variant(q) => q.dequeue(now, drops),)*)+ AnyQdisc::External(q) => q.dequeue(now, drops) }
            }

            #[inline(always)]
            fn dequeue_into(&mut self, now: Time, packet: &mut P, drops: &mut impl Drops<P>) -> bool {
                match self { $($(AnyQdisc::$variant(q) => q.dequeue_into(now, packet, drops),)*)+ AnyQdisc::External(q) => q.dequeue_into(now, packet, drops) }
            }

            fn change(&mut self, now: Time, spec: &Spec, drops: &mut impl Drops<P>) -> Result<(), Unchangeable> {
                match (self, spec) {
                    $(
                        $((AnyQdisc::$shared(q), Spec::$spec(params)) => q.change(now, &params.clone().into(), drops),)?
                        $((AnyQdisc::$variant(q), Spec::$spec(params)) => q.change(now, &params.clone().into(), drops),)*
                    )+
                    _ => Err(Unchangeable),
                }
            }

            fn counts_change(&self) -> Given {
                match self { $($(AnyQdisc::$variant(q) => q.counts_change(),)*)+ AnyQdisc::External(q) => q.counts_change() }
            }

            #[inline]
            fn next_event(&self) -> Time {
                match self { $($(AnyQdisc::$variant(q) => q.next_event(),)*)+ AnyQdisc::External(q) => q.next_event() }
            }

            #[inline(always)]
            fn packets(&self) -> usize {
                match self { $($(AnyQdisc::$variant(q) => q.packets(),)*)+ AnyQdisc::External(q) => q.packets() }
            }

            #[inline]
            fn backlog(&self) -> u64 {
                match self { $($(AnyQdisc::$variant(q) => q.backlog(),)*)+ AnyQdisc::External(q) => q.backlog() }
            }

            #[inline(always)]
            fn is_full(&self, mtu: u32) -> bool {
                match self { $($(AnyQdisc::$variant(q) => q.is_full(mtu),)*)+ AnyQdisc::External(q) => q.is_full(mtu) }
            }

            #[inline]
            fn bufferless(&self) -> bool {
                match self { $($(AnyQdisc::$variant(q) => q.bufferless(),)*)+ AnyQdisc::External(q) => q.bufferless() }
            }

            fn prefetch(&self, packets: usize, cache: &impl Cache, see: impl FnMut(&P)) {
                match self { $($(AnyQdisc::$variant(q) => q.prefetch(packets, cache, see),)*)+ AnyQdisc::External(q) => q.prefetch(packets, cache, see) }
            }

            fn stats(&self) -> Stats {
                match self { $($(AnyQdisc::$variant(q) => q.stats(),)*)+ AnyQdisc::External(q) => q.stats() }
            }

            fn overlimits(&self) -> u64 {
                match self { $($(AnyQdisc::$variant(q) => q.overlimits(),)*)+ AnyQdisc::External(q) => q.overlimits() }
            }

            fn classes(&self) -> Option<Stats> {
                match self { $($(AnyQdisc::$variant(q) => q.classes(),)*)+ AnyQdisc::External(q) => q.classes() }
            }

            fn child(&self) -> Option<Child> {
                match self { $($(AnyQdisc::$variant(q) => q.child(),)*)+ AnyQdisc::External(q) => q.child() }
            }
        }
    };
}

list!(any_qdisc);

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

fn codel<P: Packet + Copy + Default>(params: &codel::Params, context: &Context) -> AnyQdisc<P> {
    match params.variant {
        codel::Variant::Linux => AnyQdisc::Codel(Codel::new(params, context)),
        codel::Variant::Linux7 => AnyQdisc::Codel7(Codel::new(params, context)),
        codel::Variant::Rfc8289 => AnyQdisc::CodelRfc8289(Codel::new(params, context)),
        codel::Variant::Ns2 => AnyQdisc::CodelNs2(Codel::new(params, context)),
    }
}

fn fq_codel<P: Packet + Copy + Default>(params: &fq_codel::Params, context: &Context) -> AnyQdisc<P> {
    match params.variant {
        fq_codel::Variant::Linux => AnyQdisc::FqCodel(FqCodel::new(params, context)),
        fq_codel::Variant::Linux7 => AnyQdisc::FqCodel7(FqCodel::new(params, context)),
        fq_codel::Variant::Rfc8290 => AnyQdisc::FqCodelRfc8290(FqCodel::new(params, context)),
        fq_codel::Variant::Ns2 => AnyQdisc::FqCodelNs2(FqCodelNs2::new(params, context)),
    }
}

fn ccaq<P: Packet + Copy + Default>(params: &ccaq::Params, context: &Context) -> AnyQdisc<P> {
    match params.variant {
        ccaq::Variant::Servo => AnyQdisc::Ccaq(Servo::new(params, context)),
        ccaq::Variant::Paper => AnyQdisc::CcaqPaper(Paper::new(params, context)),
    }
}

fn red<P: Packet + Copy + Default>(params: &red::Params, context: &Context) -> AnyQdisc<P> {
    match params.variant {
        red::Variant::Linux => AnyQdisc::RedLinux(RedLinux::new(params, context)),
        red::Variant::Ns2 => AnyQdisc::Red(Red::new(params, context)),
    }
}

fn sfq<P: Packet + Copy + Default>(params: &sfq::Params, context: &Context) -> AnyQdisc<P> {
    match params.variant {
        sfq::Variant::Linux => AnyQdisc::Sfq(Sfq::new(params, context)),
        sfq::Variant::Ns2 => AnyQdisc::SfqNs2(SfqNs2::new(params, context)),
    }
}

fn tbf<P: Packet + Copy + Default>(params: &tbf::Params<Spec>, context: &Context) -> Tbf<P, AnyQdisc<P>> {
    let fifo = Spec::Bfifo(params.fifo());
    Tbf::new(params, params.child.as_deref().unwrap_or(&fifo).build(context))
}

fn htb<P: Packet + Copy + Default>(params: &htb::Params<Spec>, context: &Context) -> Htb<AnyQdisc<P>> {
    let fifo = Spec::Pfifo(params.fifo());
    Htb::new(params, params.child.as_deref().unwrap_or(&fifo).build(context))
}
