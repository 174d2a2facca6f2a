//! The loss of packets: at random, or by a chain of states.

use crate::rng::Rng;

/// The chance that something happens to a packet, and the correlation between packets. Both are in units of 2^-32, as
/// in netem.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chance {
    /// The share of packets to which it happens.
    pub share: u32,
    /// The weight of the previous draw in a new draw.
    pub correlation: u32,
}

impl Chance {
    /// The chance of something that never happens.
    pub const NEVER: Chance = Chance { share: 0, correlation: 0 };
}

/// The rule by which packets are lost. Probabilities are in units of 2^-32.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// Random losses, which are independent except for the correlation.
    Random(Chance),
    /// Four states: received, lost in a burst, received within a burst, lost alone.
    State {
        /// Probability of a change from reception to a loss in a burst.
        p13: u32,
        /// Probability of a change from a loss in a burst to reception.
        p31: u32,
        /// Probability of a change from a loss in a burst to reception within the burst.
        p32: u32,
        /// Probability of a change from reception within a burst to a loss in the burst.
        p23: u32,
        /// Probability of a change from reception to a loss outside of a burst.
        p14: u32,
    },
    /// The Gilbert-Elliott model: a good and a bad state, each with a probability of loss.
    Gemodel {
        /// Probability of a change from the good to the bad state.
        p: u32,
        /// Probability of a change from the bad to the good state.
        r: u32,
        /// Probability that a packet is received in the bad state.
        h: u32,
        /// Probability that a packet is lost in the good state.
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
    /// Creates a sequence of draws with this correlation, in units of 2^-32.
    pub(super) fn new(rho: u32, rng: &mut Rng) -> Correlated {
        Correlated { rho, last: if rho == 0 { 0 } else { rng.next_u32() } }
    }

    /// Returns the next draw. The correlation keeps the mean of the draws but reduces their variance, so correlated
    /// losses are rarer than their share, as in Linux.
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

    /// Draws whether an event of this probability happens. If the probability is zero, it draws no number.
    pub(super) fn happens(&mut self, share: u32, rng: &mut Rng) -> bool {
        share > 0 && share >= self.next(rng)
    }

    /// Draws a number, and returns whether the event of this probability happens. A share of zero takes a draw too.
    pub(super) fn happens_below(&mut self, share: u32, rng: &mut Rng) -> bool {
        share >= self.next(rng)
    }
}

/// The state of a chain.
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
    /// Creates a chain in the good state.
    pub(super) fn new() -> Chain {
        Chain(At::Good)
    }

    /// Returns whether the next packet is lost.
    pub(super) fn is_lost(&mut self, loss: &Loss, rng: &mut Rng) -> bool {
        match *loss {
            Loss::Random(_) => false,
            Loss::State { p13, p31, p32, p23, p14 } => self.of_four([p13, p31, p32, p23, p14], rng.next_u32()),
            Loss::Gemodel { p, r, h, lost_in_good } => self.of_two([p, r, h, lost_in_good], rng),
        }
    }

    /// loss_4state: the chain changes its state, and the new state determines the packet's fate.
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

    /// loss_gilb_ell: the chain changes its state, but the old state determines the probability of loss.
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
