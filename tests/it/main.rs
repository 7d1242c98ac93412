//! The built program, driven as its users do: real processes, real files, real sockets on loopback.
