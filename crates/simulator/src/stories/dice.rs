//! Chance that is no chance: a small generator (SplitMix64) that gives the same rolls for the same seed, everywhere.

/// A sequence of rolls.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The dice of a seed.
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// The dice of a seed and a name: what is rolled for it does not depend on when it is rolled.
    pub fn named(seed: u64, name: &str, number: u32) -> Dice {
        let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, fold);
        Dice(seed ^ hash ^ u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    /// As [`Dice::between`], for counts.
    pub fn count(&mut self, low: usize, high: usize) -> usize {
        usize::try_from(self.between(low as u64, high as u64)).unwrap_or(low)
    }

    /// As [`Dice::between`], for times.
    pub fn ms(&mut self, low: u64, high: u64) -> i64 {
        i64::try_from(self.between(low, high)).unwrap_or(0)
    }

    /// True in `percent` of a hundred rolls.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.between(1, 100) <= percent
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.count(0, from.len() - 1)]
    }
}
