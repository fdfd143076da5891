//! Which calls are taken out of a service's traffic: a share of them by chance, or by a value that
//! they have, so that the same value always goes the same way.
//!
//! Invariants:
//! - Shares of one call do not overlap: the first share takes the first points, the next one those
//!   that follow.
//! - The same value has the same point in every worker and agent, today and tomorrow.

use rand::Rng;

/// Points of a call: a share of one percent takes one of them.
pub const POINTS: u32 = 100;
/// More shares that are passed over than this many draws mean that nothing else is left.
const MAX_DRAWS: u32 = 64;

/// A share of the calls.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Share {
    /// So many of a hundred calls.
    pub percent: u32,
    /// The point of the call by its value; `None` draws one.
    pub point: Option<u32>,
    /// Whether its calls have gone elsewhere before: the share is not drawn, and the others keep
    /// their part of what is left.
    pub is_elsewhere: bool,
}

/// The point of a value.
#[must_use]
pub fn point_of(value: &str) -> u32 {
    // FNV-1a; its last bits are too alike where values differ in their last letters, so that they
    // are mixed once more.
    let hash = value.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    u32::try_from((mixed ^ (mixed >> 32)) % u64::from(POINTS)).unwrap_or(0)
}

/// Whether a call is among so many of a hundred.
pub fn is_drawn<R: Rng + ?Sized>(percent: u32, rng: &mut R) -> bool {
    POINTS <= percent || rng.random_range(0..POINTS) < percent
}

/// The share that a call falls into, of those that are meant for it, in their order.
pub fn choose<R: Rng + ?Sized>(shares: &[Share], rng: &mut R) -> Option<usize> {
    (0..MAX_DRAWS).find_map(|_| at(shares, rng.random_range(0..POINTS)))?
}

/// How many of a hundred calls fall into each share, and how many into none.
#[must_use]
pub fn parts(shares: &[Share]) -> (Vec<f64>, f64) {
    let mut counts = vec![0_u32; shares.len()];
    let mut n_none = 0;
    for index in (0..POINTS).filter_map(|point| at(shares, point)) {
        match index.and_then(|index| counts.get_mut(index)) {
            Some(count) => *count += 1,
            None => n_none += 1,
        }
    }
    let sum = counts.iter().sum::<u32>() + n_none;
    if sum == 0 {
        return (vec![0.0; shares.len()], 100.0);
    }
    let percent = |count: u32| f64::from(count) * 100.0 / f64::from(sum);
    (counts.into_iter().map(percent).collect(), percent(n_none))
}

/// The share of a call for which this point is drawn, if there is one; `None` if another point has
/// to be drawn.
fn at(shares: &[Share], drawn: u32) -> Option<Option<usize>> {
    let mut end = 0;
    let found = shares.iter().enumerate().find(|(_, share)| {
        let start = end;
        end += share.percent;
        (start..end).contains(&share.point.unwrap_or(drawn))
    });
    match found {
        Some((index, share)) if !share.is_elsewhere => Some(Some(index)),
        // A value has no other point.
        Some((_, share)) if share.point.is_some() => Some(None),
        Some(_) => None,
        None => Some(None),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    fn share(percent: u32) -> Share {
        Share { percent, point: None, is_elsewhere: false }
    }

    fn counts(shares: &[Share]) -> Vec<usize> {
        let mut rng = StdRng::seed_from_u64(7);
        let mut counts = vec![0; shares.len() + 1];
        for _ in 0..10_000 {
            counts[choose(shares, &mut rng).unwrap_or(shares.len())] += 1;
        }
        counts
    }

    fn is_near(count: usize, expected: usize) -> bool {
        count.abs_diff(expected) < 200
    }

    #[test]
    fn each_share_gets_its_part_and_the_rest_stays() {
        let counted = counts(&[share(10), share(25)]);
        assert!(is_near(counted[0], 1000) && is_near(counted[1], 2500), "{counted:?}");
        assert_eq!(counts(&[share(100)]), [10_000, 0]);
        assert_eq!(counts(&[share(40), share(60)])[2], 0);
    }

    /// A tenth of all calls has gone to another service: of the nine tenths that are left, a
    /// ninth is a tenth of all.
    #[test]
    fn a_share_that_has_gone_elsewhere_takes_nothing_from_the_others() {
        let gone = Share { is_elsewhere: true, ..share(10) };
        let counted = counts(&[gone, share(10)]);
        assert_eq!(counted[0], 0);
        assert!(is_near(counted[1], 1111), "{counted:?}");
        assert_eq!(counts(&[Share { percent: 100, ..gone }, share(100)])[2], 10_000);
    }

    #[test]
    fn the_parts_are_those_that_are_drawn() {
        let gone = Share { is_elsewhere: true, ..share(10) };
        let pinned = Share { point: Some(15), ..share(20) };
        for shares in [
            &[share(10), share(25)][..],
            &[],
            &[share(100)],
            &[gone, share(10)],
            &[Share { percent: 100, ..gone }],
            &[share(10), pinned, share(30)],
            &[Share { point: Some(5), ..gone }, share(50)],
        ] {
            let (parts, none) = parts(shares);
            let all: Vec<f64> = parts.into_iter().chain([none]).collect();
            for (part, count) in all.iter().zip(counts(shares)) {
                assert!((part * 100.0 - count as f64).abs() < 200.0, "{shares:?}: {all:?}");
            }
            assert_eq!(all.iter().sum::<f64>().round(), 100.0);
        }
    }

    #[test]
    fn values_are_spread_evenly_and_stay_where_they_are() {
        let mut counts = [0_usize; POINTS as usize];
        for n in 0..100_000 {
            counts[point_of(&format!("user-{n}")) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
        // Another version of this agent has to find the same.
        assert_eq!((point_of(""), point_of("alice"), point_of("bob")), POINTS_OF_VALUES);
    }

    const POINTS_OF_VALUES: (u32, u32, u32) = (14, 43, 9);

    proptest! {
        /// Who is in a share stays in it when the share grows.
        #[test]
        fn a_growing_share_loses_nobody(value in ".*", small in 1..50_u32, more in 0..50_u32) {
            let mut rng = StdRng::seed_from_u64(1);
            let point = Some(point_of(&value));
            let sticky = |percent| Share { point, ..share(percent) };
            let is_in = choose(&[sticky(small)], &mut rng).is_some();
            prop_assert!(!is_in || choose(&[sticky(small + more)], &mut rng).is_some());
            prop_assert!(choose(&[sticky(100)], &mut rng).is_some());
        }

        #[test]
        fn no_more_than_a_hundred_percent_are_drawn(percent in 0..=100_u32, seed in 0..1000_u64) {
            let mut rng = StdRng::seed_from_u64(seed);
            let is_drawn = is_drawn(percent, &mut rng);
            prop_assert!(percent != 0 || !is_drawn);
            prop_assert!(percent != 100 || is_drawn);
        }
    }
}
