//! link-proto
