//! The commands of the program, as somebody at a terminal runs them.

mod cli;
mod commands;
mod completions;
mod explain;
mod file_limit;
mod killed_at_end;
mod list;
mod list_running;
mod logs;
mod memory;
mod one_way;
mod running;
mod tap;
mod top;
mod transfer;
