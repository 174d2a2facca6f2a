//! pfifo.
