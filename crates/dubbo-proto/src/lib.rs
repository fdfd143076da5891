//! dubbo-proto
