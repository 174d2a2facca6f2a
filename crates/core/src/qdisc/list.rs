//! The list of all disciplines, from which [`Spec`](super::tc::Spec) and [`AnyQdisc`](super::AnyQdisc) are made.

/// Passes the list to the macro `$with`. The form of an entry is
///
/// ```text
/// /// One line of documentation.
/// Name(its parameters) by a function that builds it => Variant(its type);
/// ```
///
/// A discipline with variants has a type for each variant. `[Variant]` means that the discipline has the type of that
/// variant of `AnyQdisc`, which another entry defines.
macro_rules! list {
    ($with:ident) => {
        $with! {
            /// No queue at all.
            Noqueue(super::fifo::NoqueueParams) by super::fifo::Fifo::noqueue =>;
            /// First in, first out; a limit in packets.
            Pfifo(super::fifo::PfifoParams) by super::fifo::Fifo::pfifo => Fifo(super::fifo::Fifo<P>);
            /// First in, first out; a limit in bytes.
            Bfifo(super::fifo::BfifoParams) by super::fifo::Fifo::bfifo => [Fifo];
            /// First in, first out; a full queue drops its head.
            PfifoHeadDrop(super::fifo::PfifoHeadDropParams) by super::fifo::Fifo::pfifo_head_drop => [Fifo];
            /// CoDel.
            Codel(super::codel::Params) by codel =>
                Codel(super::codel::Codel<P, super::codel::Linux>),
                Codel7(super::codel::Codel<P, super::codel::Linux7>),
                CodelRfc8289(super::codel::Codel<P, super::codel::Rfc8289>),
                CodelNs2(super::codel::Codel<P, super::codel::Ns2<true>>);
            /// FQ-CoDel.
            FqCodel(super::fq_codel::Params) by fq_codel =>
                FqCodel(super::fq_codel::FqCodel<P, super::codel::Linux>),
                FqCodel7(super::fq_codel::FqCodel<P, super::codel::Linux7>),
                FqCodelRfc8290(super::fq_codel::FqCodel<P, super::codel::Rfc8289>),
                FqCodelNs2(super::fq_codel::FqCodelNs2<P>);
            /// Fair queueing with per-flow limits.
            Fq(super::fq::Params) by super::fq::Fq::new => Fq(super::fq::Fq<P>);
            /// Random early detection.
            Red(super::red::Params) by red => Red(super::red::Red<P>), RedLinux(super::red::RedLinux<P>);
            /// Proportional integral controller enhanced.
            Pie(super::pie::Params) by super::pie::Pie::new => Pie(super::pie::Pie<P>);
            /// FQ-PIE.
            FqPie(super::fq_pie::Params) by super::fq_pie::FqPie::new => FqPie(super::fq_pie::FqPie<P>);
            /// Dual queue, coupled.
            DualPi2(super::dualpi2::Params) by super::dualpi2::DualPi2::new => DualPi2(super::dualpi2::DualPi2<P>);
            /// Congestion-control-aware queueing.
            Ccaq(super::ccaq::Params) by ccaq =>
                Ccaq(super::ccaq::Servo<P>),
                CcaqPaper(super::ccaq::Paper<P>);
            /// Stochastic fairness queueing.
            Sfq(super::sfq::Params) by sfq => Sfq(super::sfq::Sfq<P>), SfqNs2(super::sfq::SfqNs2<P>);
            /// Bands of priority.
            Prio(super::prio::Params) by super::prio::Prio::new => Prio(super::prio::Prio<P>);
            /// A token bucket.
            Tbf(super::tbf::Params<Spec>) by tbf => Tbf(super::tbf::Tbf<P, AnyQdisc<P>>);
            /// Two token buckets.
            Htb(super::htb::Params<Spec>) by htb => Htb(super::htb::Htb<AnyQdisc<P>>);
            /// RED with a flow's own packets as judges.
            Choke(super::choke::Params) by super::choke::Choke::new => Choke(super::choke::Choke<P>);
            /// Stochastic fair BLUE.
            Sfb(super::sfb::Params) by super::sfb::Sfb::new => Sfb(super::sfb::Sfb<P>);
            /// BLUE.
            Blue(super::blue::Params) by super::blue::Blue::new => Blue(super::blue::Blue<P>);
            /// Common applications kept enhanced.
            Cake(super::cake::Params) by super::cake::Cake::new => Cake(super::cake::Cake<P>);
        }
    };
}

pub(crate) use list;
