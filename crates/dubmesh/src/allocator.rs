//! The memory allocator of the program: jemalloc, where there is one for the system.
//!
//! The system's own keeps what a burst of large messages took, for good. jemalloc gives it back
//! after a second, by a thread of its own, so that an agent that idles does so, too.
//! docs/performance.md shows both curves. Libraries choose no allocator.

/// Pages that nobody uses are given back after a second, also while nothing is allocated; until
/// then they are used again, since a fresh page costs much more than one that is there.
const OPTIONS: &[u8; 64] = b"background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0\0\0\0\0\0";

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// What jemalloc reads before its first allocation: a pointer to text that ends in a zero.
// SAFETY: jemalloc declares this symbol as `const char *`. A reference to an array is one pointer,
// never null; the text lives as long as the program, and its last bytes are zeros. No other part
// of the program has a symbol of this name.
#[expect(unsafe_code, reason = "jemalloc takes its options by the name of a symbol")]
#[unsafe(export_name = "_rjem_malloc_conf")]
#[used]
static MALLOC_CONF: &[u8; 64] = OPTIONS;
