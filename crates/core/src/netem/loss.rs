//! Which packets are lost: at random, or as a chain of states says.

use crate::rng::Rng;

/// A share of packets, in 2^-32 (netem's scale), and how much of each draw is the one before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chance {
    /// Share of the packets.
    pub share: u32,
    /// Correlation of the draw.
    pub correlation: u32,
}

impl Chance {
    /// It never happens.
    pub const NEVER: Chance = Chance { share: 0, correlation: 0 };
}

/// How packets are lost; probabilities in 2^-32.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// Independent losses, except for the correlation.
    Random(Chance),
    /// Four states: received, lost in a burst, received within a burst, lost alone.
    State {
        /// From reception to a burst.
        p13: u32,
        /// From a burst's loss to reception.
        p31: u32,
        /// From a burst's loss to reception within the burst.
        p32: u32,
        /// From reception within a burst to its loss.
        p23: u32,
        /// From reception to a loss that stands alone.
        p14: u32,
    },
    /// Gilbert and Elliott: a good and a bad state, each with a share of losses.
    Gemodel {
        /// From good to bad.
        p: u32,
        /// From bad to good.
        r: u32,
        /// Received in the bad state.
        h: u32,
        /// Lost in the good state.
        lost_in_good: u32,
    },
}

/// Correlated draws: each contains a share of the previous one (`get_crandom`).
#[derive(Clone, Debug)]
pub(super) struct Correlated {
    rho: u32,
    last: u32,
}

impl Correlated {
    /// With this correlation, in 2^-32.
    pub(super) fn new(rho: u32, rng: &mut Rng) -> Correlated {
        Correlated { rho, last: if rho == 0 { 0 } else { rng.next_u32() } }
    }

    /// The next draw. (Its mean stays, its variance falls: correlated losses are rarer than their share, in Linux too.)
    pub(super) fn next(&mut self, rng: &mut Rng) -> u32 {
        let fresh = rng.next_u32();
        if self.rho == 0 {
            return fresh;
        }
        let rho = u64::from(self.rho) + 1;
        let mixed = u128::from(fresh) * u128::from((1u64 << 32) - rho) + u128::from(self.last) * u128::from(rho);
        self.last = (mixed >> 32) as u32;
        self.last
    }

    /// Whether an event of this probability happens; if it is zero, no number is drawn.
    pub(super) fn happens(&mut self, share: u32, rng: &mut Rng) -> bool {
        share > 0 && share >= self.next(rng)
    }

    /// Draws a number, and returns whether the event of this probability happens. A share of zero takes a draw too.
    pub(super) fn happens_below(&mut self, share: u32, rng: &mut Rng) -> bool {
        share >= self.next(rng)
    }
}

/// Where a chain of states is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    Good,
    Bad,
    ReceivedInBurst,
    LostAlone,
}

/// The chain behind [`Loss::State`] and [`Loss::Gemodel`].
#[derive(Clone, Debug)]
pub(super) struct Chain(At);

impl Chain {
    /// In the good state.
    pub(super) fn new() -> Chain {
        Chain(At::Good)
    }

    /// Whether the next packet is lost.
    pub(super) fn is_lost(&mut self, loss: &Loss, rng: &mut Rng) -> bool {
        match *loss {
            Loss::Random(_) => false,
            Loss::State { p13, p31, p32, p23, p14 } => self.of_four([p13, p31, p32, p23, p14], rng.next_u32()),
            Loss::Gemodel { p, r, h, lost_in_good } => self.of_two([p, r, h, lost_in_good], rng),
        }
    }

    /// loss_4state: the packet's fate is that of the state it leads to.
    fn of_four(&mut self, [p13, p31, p32, p23, p14]: [u32; 5], draw: u32) -> bool {
        self.0 = match self.0 {
            At::Good if draw < p14 => At::LostAlone,
            At::Good if draw < p13.wrapping_add(p14) => At::Bad,
            At::ReceivedInBurst if draw < p23 => At::Bad,
            At::ReceivedInBurst => At::ReceivedInBurst,
            At::Bad if draw < p32 => At::ReceivedInBurst,
            At::Bad if draw >= p31.wrapping_add(p32) => At::Bad,
            At::Good | At::Bad | At::LostAlone => At::Good,
        };
        matches!(self.0, At::Bad | At::LostAlone)
    }

    /// loss_gilb_ell: the chain moves first, and the packet's fate is drawn in the state before.
    fn of_two(&mut self, [p, r, h, lost_in_good]: [u32; 4], rng: &mut Rng) -> bool {
        let (turns, fate) = (rng.next_u32(), rng.next_u32());
        if self.0 == At::Good {
            self.0 = if turns < p { At::Bad } else { At::Good };
            fate < lost_in_good
        } else {
            self.0 = if turns < r { At::Good } else { At::Bad };
            fate > h
        }
    }
}
