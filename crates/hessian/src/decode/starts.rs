//! Where lists, maps and objects begin, in order. The first few take no memory of their own, for
//! most messages have no more of them, and are read faster than memory is taken and given back.

/// How many stand in place: more than the containers of one object with a list or two in it.
const N_IN_PLACE: usize = 8;

/// ReferencePaths, added and taken off at the end.
#[derive(Debug, Default)]
pub(crate) struct Starts {
    first: [usize; N_IN_PLACE],
    more: Vec<usize>,
    len: usize,
}

impl Starts {
    #[inline]
    pub(crate) fn push(&mut self, start: usize) {
        match self.first.get_mut(self.len) {
            Some(place) => *place = start,
            None => self.more.push(start),
        }
        self.len += 1;
    }

    #[cfg(any(test, feature = "serde"))]
    #[inline]
    pub(crate) fn pop(&mut self) {
        if N_IN_PLACE < self.len {
            self.more.pop();
        }
        self.len = self.len.saturating_sub(1);
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, index: usize) -> Option<usize> {
        let (first, more) = self.parts();
        first.get(index).or_else(|| more.get(index.checked_sub(N_IN_PLACE)?)).copied()
    }

    /// Whether one of them is `start`. They need not be in order for this.
    #[cfg(feature = "serde")]
    pub(crate) fn contains(&self, start: usize) -> bool {
        let (first, more) = self.parts();
        first.contains(&start) || more.contains(&start)
    }

    /// Which of them is `start`; the later it is, the faster.
    pub(crate) fn index_of(&self, start: usize) -> Option<usize> {
        let last = self.len.checked_sub(1)?;
        if self.get(last) == Some(start) {
            return Some(last);
        }
        let (first, more) = self.parts();
        let in_more = || Some(N_IN_PLACE + more.binary_search(&start).ok()?);
        first.binary_search(&start).ok().or_else(in_more)
    }

    fn parts(&self) -> (&[usize], &[usize]) {
        (self.first.get(..self.len).unwrap_or(&self.first), &self.more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_a_plain_list_would() {
        let (mut starts, mut plain) = (Starts::default(), Vec::new());
        for n in 0..3 * N_IN_PLACE {
            assert_eq!(starts.index_of(2 * n), None);
            starts.push(2 * n);
            plain.push(2 * n);
            assert_eq!(
                (starts.len(), starts.get(n), starts.get(n + 1)),
                (n + 1, Some(2 * n), None)
            );
            for at in 0..2 * n + 4 {
                assert_eq!(starts.index_of(at), plain.binary_search(&at).ok());
                #[cfg(feature = "serde")]
                assert_eq!(starts.contains(at), plain.contains(&at));
            }
        }
        for n in (0..3 * N_IN_PLACE).rev() {
            assert_eq!(starts.get(n), Some(2 * n));
            starts.pop();
            assert_eq!((starts.len(), starts.get(n), starts.index_of(2 * n)), (n, None, None));
        }
        starts.pop();
        assert_eq!(starts.len(), 0);
    }
}
